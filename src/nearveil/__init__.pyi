"""Public names by the module that each is defined in; each is loaded on first use."""

from .attacks.adapter import adapter as adapter
from .attacks.base import Attack as Attack
from .auditing.auditor import AuditReport as AuditReport
from .auditing.auditor import audit as audit
from .auditing.certificate import (
    MechanismCertificate as MechanismCertificate,
)
from .auditing.certificate import (
    certify as certify,
)
from .auditing.certificate import (
    check_certificate as check_certificate,
)
from .auditing.check import check_witness as check_witness
from .auditing.fit import audit_fit as audit_fit
from .errors import (
    DataError as DataError,
)
from .errors import (
    NearveilError as NearveilError,
)
from .errors import (
    OutputError as OutputError,
)
from .errors import (
    UsageError as UsageError,
)
from .evaluation.attack import (
    AttackOutcome as AttackOutcome,
)
from .evaluation.attack import (
    attack as attack,
)
from .evaluation.campaign import CampaignOutcome as CampaignOutcome
from .evaluation.campaign import attack_campaign as attack_campaign
from .evaluation.plan import Plan as Plan
from .evaluation.plan import plan as plan
from .evaluation.population import PopulationAttack as PopulationAttack
from .evaluation.population import attack_population as attack_population
from .evaluation.simulation import Simulation as Simulation
from .evaluation.simulation import simulate as simulate
from .io.density import Density as Density
from .io.density import read_density as read_density
from .io.location import ReadOptions as ReadOptions
from .mechanisms.axis_laplace import AxisLaplace as AxisLaplace
from .mechanisms.base import Mechanism as Mechanism
from .mechanisms.cells import Cells as Cells
from .mechanisms.cells import cells_from_json as cells_from_json
from .mechanisms.cells import load_cells as load_cells
from .mechanisms.dprs import DPRS as DPRS
from .mechanisms.fit_cells import (
    CellPlan as CellPlan,
)
from .mechanisms.fit_cells import (
    cells_from_density as cells_from_density,
)
from .mechanisms.fit_cells import (
    cells_from_points as cells_from_points,
)
from .mechanisms.fit_cells import (
    cells_from_published as cells_from_published,
)
from .mechanisms.fit_grid import build_grid_intervals as build_grid_intervals
from .mechanisms.fit_pic import build_pic_intervals as build_pic_intervals
from .mechanisms.hide_among import HideAmong as HideAmong
from .mechanisms.intervals import Intervals as Intervals
from .mechanisms.intervals import intervals_from_json as intervals_from_json
from .mechanisms.planar_laplace import PlanarLaplace as PlanarLaplace
from .mechanisms.square import Square as Square
from .mechanisms.srr import SRR as SRR
from .nearby.nearby import ChainBrokenError as ChainBrokenError
from .nearby.nearby import Nearby as Nearby
from .privacy.guarantee import Basis as Basis
from .privacy.guarantee import Certificate as Certificate
from .privacy.guarantee import Guarantee as Guarantee
from .privacy.guarantee import PrivacyDefinition as PrivacyDefinition
from .privacy.ledger import Budget as Budget
from .privacy.ledger import Ledger as Ledger
from .randomness import (
    Randomness as Randomness,
)
from .randomness import (
    seeded_randomness as seeded_randomness,
)
from .region import Region as Region
from .region import as_region as as_region
from .region import named_region as named_region
from .release.fit import Fitted as Fitted
from .release.fit import fit as fit
from .release.protect import Protected as Protected
from .release.protect import protect as protect
from .report.attack_player import attack_map as attack_map
from .report.interactive_map import protection_map as protection_map
from .report.reproduce import Reproduction as Reproduction
from .report.reproduce import reproduce as reproduce
from .veil import Veil as Veil

__all__: list[str]
