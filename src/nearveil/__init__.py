"""Nearveil: audit and protect "people nearby" services."""

from __future__ import annotations

from typing import TYPE_CHECKING

from nearveil._lazy import lazy_names

if TYPE_CHECKING:
    from nearveil.attacks.base import Attack
    from nearveil.audit.auditor import AuditReport, audit
    from nearveil.audit.certificate import MechanismCertificate, certify, check_certificate
    from nearveil.audit.check import check_witness
    from nearveil.audit.fit import audit_fit
    from nearveil.errors import DataError, NearveilError, OutputError, UsageError
    from nearveil.evaluation.attack import (
        AttackOutcome,
        PopulationAttack,
        Simulation,
        attack,
        attack_population,
        simulate,
    )
    from nearveil.evaluation.attack_experiment import AttackProtocol
    from nearveil.evaluation.campaign import CampaignOutcome, attack_campaign
    from nearveil.evaluation.plan import Goal, Plan, plan
    from nearveil.io.density import Density, read_density
    from nearveil.io.people import ReadOptions
    from nearveil.mechanisms.axis_laplace import AxisLaplace
    from nearveil.mechanisms.base import Mechanism
    from nearveil.mechanisms.cells import Cells, cells_from_json, load_cells
    from nearveil.mechanisms.dprs import DPRS
    from nearveil.mechanisms.fit_cells import CellPlan, cells_from_density, cells_from_points, cells_from_published
    from nearveil.mechanisms.fit_grid import build_grid_intervals
    from nearveil.mechanisms.fit_pic import build_pic_intervals
    from nearveil.mechanisms.hide_among import HideAmong
    from nearveil.mechanisms.intervals import Intervals, intervals_from_json
    from nearveil.mechanisms.planar_laplace import PlanarLaplace
    from nearveil.mechanisms.square import Square
    from nearveil.mechanisms.srr import SRR
    from nearveil.nearby.nearby import ChainBrokenError, Nearby
    from nearveil.privacy.guarantee import Basis, Certificate, Guarantee, Notion
    from nearveil.randomness import Randomness, secure_randomness, seeded_randomness
    from nearveil.region import Region, named_region, parse_region
    from nearveil.release.fitting import FittedCells, FittedIntervals, fit_cells, fit_intervals
    from nearveil.release.protect import ProtectResult, protect_file, protect_frame
    from nearveil.report.interactive_map import attack_map, protection_map
    from nearveil.report.reproduce import Reproduction, reproduce
    from nearveil.veil import Veil

__all__ = [
    "DPRS",
    "SRR",
    "Attack",
    "AttackOutcome",
    "AttackProtocol",
    "AuditReport",
    "AxisLaplace",
    "Basis",
    "CampaignOutcome",
    "CellPlan",
    "Cells",
    "Certificate",
    "ChainBrokenError",
    "DataError",
    "Density",
    "FittedCells",
    "FittedIntervals",
    "Goal",
    "Guarantee",
    "HideAmong",
    "Intervals",
    "Mechanism",
    "MechanismCertificate",
    "Nearby",
    "NearveilError",
    "Notion",
    "OutputError",
    "Plan",
    "PlanarLaplace",
    "PopulationAttack",
    "ProtectResult",
    "Randomness",
    "ReadOptions",
    "Region",
    "Reproduction",
    "Simulation",
    "Square",
    "UsageError",
    "Veil",
    "attack",
    "attack_campaign",
    "attack_map",
    "attack_population",
    "audit",
    "audit_fit",
    "build_grid_intervals",
    "build_pic_intervals",
    "cells_from_density",
    "cells_from_json",
    "cells_from_points",
    "cells_from_published",
    "certify",
    "check_certificate",
    "check_witness",
    "fit_cells",
    "fit_intervals",
    "intervals_from_json",
    "load_cells",
    "named_region",
    "parse_region",
    "plan",
    "protect_file",
    "protect_frame",
    "protection_map",
    "read_density",
    "reproduce",
    "secure_randomness",
    "seeded_randomness",
    "simulate",
]

# ``audit`` is a package that can be called.
_HOMES = {
    "Attack": "nearveil.attacks.base",
    "AttackOutcome": "nearveil.evaluation.attack",
    "AttackProtocol": "nearveil.evaluation.attack_experiment",
    "AuditReport": "nearveil.audit.auditor",
    "AxisLaplace": "nearveil.mechanisms.axis_laplace",
    "Basis": "nearveil.privacy.guarantee",
    "CampaignOutcome": "nearveil.evaluation.campaign",
    "CellPlan": "nearveil.mechanisms.fit_cells",
    "Cells": "nearveil.mechanisms.cells",
    "Certificate": "nearveil.privacy.guarantee",
    "ChainBrokenError": "nearveil.nearby.nearby",
    "DPRS": "nearveil.mechanisms.dprs",
    "DataError": "nearveil.errors",
    "Density": "nearveil.io.density",
    "FittedCells": "nearveil.release.fitting",
    "FittedIntervals": "nearveil.release.fitting",
    "Goal": "nearveil.evaluation.plan",
    "Guarantee": "nearveil.privacy.guarantee",
    "HideAmong": "nearveil.mechanisms.hide_among",
    "Intervals": "nearveil.mechanisms.intervals",
    "Mechanism": "nearveil.mechanisms.base",
    "MechanismCertificate": "nearveil.audit.certificate",
    "Nearby": "nearveil.nearby.nearby",
    "NearveilError": "nearveil.errors",
    "Notion": "nearveil.privacy.guarantee",
    "OutputError": "nearveil.errors",
    "Plan": "nearveil.evaluation.plan",
    "PlanarLaplace": "nearveil.mechanisms.planar_laplace",
    "PopulationAttack": "nearveil.evaluation.attack",
    "ProtectResult": "nearveil.release.protect",
    "Randomness": "nearveil.randomness",
    "ReadOptions": "nearveil.io.people",
    "Region": "nearveil.region",
    "Reproduction": "nearveil.report.reproduce",
    "SRR": "nearveil.mechanisms.srr",
    "Simulation": "nearveil.evaluation.attack",
    "Square": "nearveil.mechanisms.square",
    "UsageError": "nearveil.errors",
    "Veil": "nearveil.veil",
    "attack": "nearveil.evaluation.attack",
    "attack_campaign": "nearveil.evaluation.campaign",
    "attack_map": "nearveil.report.interactive_map",
    "attack_population": "nearveil.evaluation.attack",
    "audit": "nearveil.audit",
    "audit_fit": "nearveil.audit.fit",
    "build_grid_intervals": "nearveil.mechanisms.fit_grid",
    "build_pic_intervals": "nearveil.mechanisms.fit_pic",
    "cells_from_density": "nearveil.mechanisms.fit_cells",
    "cells_from_json": "nearveil.mechanisms.cells",
    "cells_from_points": "nearveil.mechanisms.fit_cells",
    "cells_from_published": "nearveil.mechanisms.fit_cells",
    "certify": "nearveil.audit.certificate",
    "check_certificate": "nearveil.audit.certificate",
    "check_witness": "nearveil.audit.check",
    "fit_cells": "nearveil.release.fitting",
    "fit_intervals": "nearveil.release.fitting",
    "intervals_from_json": "nearveil.mechanisms.intervals",
    "load_cells": "nearveil.mechanisms.cells",
    "named_region": "nearveil.region",
    "parse_region": "nearveil.region",
    "plan": "nearveil.evaluation.plan",
    "protect_file": "nearveil.release.protect",
    "protect_frame": "nearveil.release.protect",
    "protection_map": "nearveil.report.interactive_map",
    "read_density": "nearveil.io.density",
    "reproduce": "nearveil.report.reproduce",
    "secure_randomness": "nearveil.randomness",
    "seeded_randomness": "nearveil.randomness",
    "simulate": "nearveil.evaluation.attack",
}

__getattr__, __dir__ = lazy_names(__name__, _HOMES)
