"""Public names by the module that each is defined in; each is loaded on first use."""

from .adaptive import Adaptive as Adaptive
from .answers import Answers as Answers
from .base import (
    Attack as Attack,
    AttackResult as AttackResult,
    Circle as Circle,
    Finding as Finding,
    Inquiry as Inquiry,
    Outcome as Outcome,
    Trace as Trace,
    TraceStep as TraceStep,
)
from .bayes import BayesAttacker as BayesAttacker, prior_from_points as prior_from_points
from .campaign import Campaign as Campaign, CampaignResult as CampaignResult
from .from_map import FromMap as FromMap
from .gi_lia import GILIA as GILIA
from .matching import match_everybody as match_everybody
from .oracle import (
    BandOracle as BandOracle,
    CountedBands as CountedBands,
    CountedDistance as CountedDistance,
    CountedFilter as CountedFilter,
    CountedOracle as CountedOracle,
    DistanceOracle as DistanceOracle,
    FilterOracle as FilterOracle,
    Oracle as Oracle,
    OracleError as OracleError,
    OutOfQueriesError as OutOfQueriesError,
    PersonOracle as PersonOracle,
    Radii as Radii,
    Spot as Spot,
)
from .registry import ATTACKS as ATTACKS, attack_class as attack_class
from .scores import score_attacker as score_attacker, score_naming as score_naming
from .simulator import SimulatedService as SimulatedService
from .unfolding import Unfolding as Unfolding
from .zo_lia import ZOLIA as ZOLIA
