"""Public names by the module that each is defined in; each is loaded on first use."""

import nearveil.audit.auditor as _auditor

from .attacks.base import Attack as Attack
from .audit.auditor import AuditReport as AuditReport
from .audit.certificate import (
    MechanismCertificate as MechanismCertificate,
    certify as certify,
    check_certificate as check_certificate,
)
from .audit.check import check_witness as check_witness
from .audit.fit import audit_fit as audit_fit
from .errors import (
    DataError as DataError,
    NearveilError as NearveilError,
    OutputError as OutputError,
    UsageError as UsageError,
)
from .evaluation.attack import (
    AttackOutcome as AttackOutcome,
    PopulationAttack as PopulationAttack,
    Simulation as Simulation,
    attack as attack,
    attack_population as attack_population,
    simulate as simulate,
)
from .evaluation.attack_experiment import AttackProtocol as AttackProtocol
from .evaluation.campaign import CampaignOutcome as CampaignOutcome, attack_campaign as attack_campaign
from .evaluation.plan import Goal as Goal, Plan as Plan, plan as plan
from .io.density import Density as Density, read_density as read_density
from .io.location import ReadOptions as ReadOptions
from .mechanisms.axis_laplace import AxisLaplace as AxisLaplace
from .mechanisms.base import Mechanism as Mechanism
from .mechanisms.cells import Cells as Cells, cells_from_json as cells_from_json, load_cells as load_cells
from .mechanisms.dprs import DPRS as DPRS
from .mechanisms.fit_cells import (
    CellPlan as CellPlan,
    cells_from_density as cells_from_density,
    cells_from_points as cells_from_points,
    cells_from_published as cells_from_published,
)
from .mechanisms.fit_grid import build_grid_intervals as build_grid_intervals
from .mechanisms.fit_pic import build_pic_intervals as build_pic_intervals
from .mechanisms.hide_among import HideAmong as HideAmong
from .mechanisms.intervals import Intervals as Intervals, intervals_from_json as intervals_from_json
from .mechanisms.planar_laplace import PlanarLaplace as PlanarLaplace
from .mechanisms.square import Square as Square
from .mechanisms.srr import SRR as SRR
from .nearby.nearby import ChainBrokenError as ChainBrokenError, Nearby as Nearby
from .privacy.guarantee import (
    Basis as Basis,
    Certificate as Certificate,
    Guarantee as Guarantee,
    PrivacyDefinition as PrivacyDefinition,
)
from .randomness import (
    Randomness as Randomness,
    secure_randomness as secure_randomness,
    seeded_randomness as seeded_randomness,
)
from .region import Region as Region, named_region as named_region, parse_region as parse_region
from .release.fit import Fitted as Fitted, fit as fit
from .release.protect import Protected as Protected, protect as protect
from .report.interactive_map import attack_map as attack_map, protection_map as protection_map
from .report.reproduce import Reproduction as Reproduction, reproduce as reproduce
from .veil import Veil as Veil

audit = _auditor.audit
