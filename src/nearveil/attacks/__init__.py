"""Attacks: they find people through what a service answers, and touch nothing but an oracle.

`oracle` is all an attacker can ask, `answers` what services answer, `base` what an attack is and returns,
`registry` the attacks by name. `bayes` is the best guess from what a mechanism publishes, `matching` that of everybody
at once, `scores` how good they are.
`nearveil.attack` runs them (`nearveil.evaluation.attack`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from nearveil._lazy import lazy_names

if TYPE_CHECKING:
    from nearveil.attacks.adaptive import Adaptive
    from nearveil.attacks.answers import Answers
    from nearveil.attacks.base import Attack, AttackResult, Circle, Finding, Inquiry, Outcome, Trace, TraceStep
    from nearveil.attacks.bayes import BayesAttacker, prior_from_points
    from nearveil.attacks.campaign import Campaign, CampaignResult
    from nearveil.attacks.from_map import FromMap
    from nearveil.attacks.gi_lia import GILIA
    from nearveil.attacks.matching import match_everybody
    from nearveil.attacks.oracle import (
        BandOracle,
        CountedBands,
        CountedDistance,
        CountedFilter,
        CountedOracle,
        DistanceOracle,
        FilterOracle,
        Oracle,
        OracleError,
        OutOfQueriesError,
        PersonOracle,
        Radii,
        Spot,
    )
    from nearveil.attacks.registry import ATTACKS, attack_class
    from nearveil.attacks.scores import score_attacker, score_naming
    from nearveil.attacks.simulator import SimulatedService
    from nearveil.attacks.unfolding import Unfolding
    from nearveil.attacks.zo_lia import ZOLIA

__all__ = [
    "ATTACKS",
    "GILIA",
    "ZOLIA",
    "Adaptive",
    "Answers",
    "Attack",
    "AttackResult",
    "BandOracle",
    "BayesAttacker",
    "Campaign",
    "CampaignResult",
    "Circle",
    "CountedBands",
    "CountedDistance",
    "CountedFilter",
    "CountedOracle",
    "DistanceOracle",
    "FilterOracle",
    "Finding",
    "FromMap",
    "Inquiry",
    "Oracle",
    "OracleError",
    "OutOfQueriesError",
    "Outcome",
    "PersonOracle",
    "Radii",
    "SimulatedService",
    "Spot",
    "Trace",
    "TraceStep",
    "Unfolding",
    "attack_class",
    "match_everybody",
    "prior_from_points",
    "score_attacker",
    "score_naming",
]

_HOMES = {
    "ATTACKS": "nearveil.attacks.registry",
    "Adaptive": "nearveil.attacks.adaptive",
    "Answers": "nearveil.attacks.answers",
    "Attack": "nearveil.attacks.base",
    "AttackResult": "nearveil.attacks.base",
    "BandOracle": "nearveil.attacks.oracle",
    "BayesAttacker": "nearveil.attacks.bayes",
    "Campaign": "nearveil.attacks.campaign",
    "CampaignResult": "nearveil.attacks.campaign",
    "Circle": "nearveil.attacks.base",
    "CountedBands": "nearveil.attacks.oracle",
    "CountedDistance": "nearveil.attacks.oracle",
    "CountedFilter": "nearveil.attacks.oracle",
    "CountedOracle": "nearveil.attacks.oracle",
    "DistanceOracle": "nearveil.attacks.oracle",
    "FilterOracle": "nearveil.attacks.oracle",
    "Finding": "nearveil.attacks.base",
    "FromMap": "nearveil.attacks.from_map",
    "GILIA": "nearveil.attacks.gi_lia",
    "Inquiry": "nearveil.attacks.base",
    "Oracle": "nearveil.attacks.oracle",
    "OracleError": "nearveil.attacks.oracle",
    "OutOfQueriesError": "nearveil.attacks.oracle",
    "Outcome": "nearveil.attacks.base",
    "PersonOracle": "nearveil.attacks.oracle",
    "Radii": "nearveil.attacks.oracle",
    "SimulatedService": "nearveil.attacks.simulator",
    "Spot": "nearveil.attacks.oracle",
    "Trace": "nearveil.attacks.base",
    "TraceStep": "nearveil.attacks.base",
    "Unfolding": "nearveil.attacks.unfolding",
    "ZOLIA": "nearveil.attacks.zo_lia",
    "attack_class": "nearveil.attacks.registry",
    "match_everybody": "nearveil.attacks.matching",
    "prior_from_points": "nearveil.attacks.bayes",
    "score_attacker": "nearveil.attacks.scores",
    "score_naming": "nearveil.attacks.scores",
}

__getattr__, __dir__ = lazy_names(__name__, _HOMES)
