"""Public names by the module that each is defined in; each is loaded on first use."""

from .adaptive import Adaptive as Adaptive
from .answers import Answers as Answers
from .base import (
    Attack as Attack,
)
from .base import (
    AttackResult as AttackResult,
)
from .base import (
    Circle as Circle,
)
from .base import (
    Finding as Finding,
)
from .base import (
    Inquiry as Inquiry,
)
from .base import (
    Outcome as Outcome,
)
from .base import (
    Trace as Trace,
)
from .base import (
    TraceStep as TraceStep,
)
from .bayes import BayesAttacker as BayesAttacker
from .bayes import prior_from_points as prior_from_points
from .campaign import Campaign as Campaign
from .campaign import CampaignResult as CampaignResult
from .from_map import FromMap as FromMap
from .gi_lia import GILIA as GILIA
from .matching import match_everybody as match_everybody
from .oracle import (
    CountedBands as CountedBands,
)
from .oracle import (
    CountedDistance as CountedDistance,
)
from .oracle import (
    CountedFilter as CountedFilter,
)
from .oracle import (
    CountedOracle as CountedOracle,
)
from .oracle import (
    Oracle as Oracle,
)
from .oracle import (
    OracleError as OracleError,
)
from .oracle import (
    OutOfQueriesError as OutOfQueriesError,
)
from .oracle import (
    PersonOracle as PersonOracle,
)
from .oracle import (
    Point as Point,
)
from .oracle import (
    Radii as Radii,
)
from .registry import ATTACKS as ATTACKS
from .registry import attack_class as attack_class
from .scores import score_attacker as score_attacker
from .scores import score_naming as score_naming
from .simulator import SimulatedService as SimulatedService
from .unfolding import Unfolding as Unfolding
from .zo_lia import ZOLIA as ZOLIA

__all__: list[str]
