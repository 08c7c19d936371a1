"""Attacks: they find people through ranked lists, and touch nothing but an `Oracle`.

`oracle` is all an attacker can ask, `base` what an attack is and returns, `registry` the attacks by name. `bayes` is
the best guess from what a mechanism publishes, `scores` how good it is. `nearveil.attack` runs them
(`nearveil.evaluation.attack`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from nearveil._lazy import lazy_names

if TYPE_CHECKING:
    from nearveil.attacks.adaptive import Adaptive
    from nearveil.attacks.base import Attack, AttackResult, Circle, Finding, Inquiry, Outcome, Trace, TraceStep
    from nearveil.attacks.bayes import BayesAttacker, prior_from_points
    from nearveil.attacks.gi_lia import GILIA
    from nearveil.attacks.oracle import CountedOracle, Oracle, OracleError, OutOfQueriesError, Spot
    from nearveil.attacks.registry import ATTACKS, attack_class
    from nearveil.attacks.sandwich import Sandwich
    from nearveil.attacks.scores import score_attacker, score_naming
    from nearveil.attacks.simulator import SimulatedService
    from nearveil.attacks.unfolding import Unfolding
    from nearveil.attacks.zo_lia import ZOLIA

__all__ = [
    "ATTACKS",
    "GILIA",
    "ZOLIA",
    "Adaptive",
    "Attack",
    "AttackResult",
    "BayesAttacker",
    "Circle",
    "CountedOracle",
    "Finding",
    "Inquiry",
    "Oracle",
    "OracleError",
    "OutOfQueriesError",
    "Outcome",
    "Sandwich",
    "SimulatedService",
    "Spot",
    "Trace",
    "TraceStep",
    "Unfolding",
    "attack_class",
    "prior_from_points",
    "score_attacker",
    "score_naming",
]

_HOMES = {
    "ATTACKS": "nearveil.attacks.registry",
    "GILIA": "nearveil.attacks.gi_lia",
    "ZOLIA": "nearveil.attacks.zo_lia",
    "Adaptive": "nearveil.attacks.adaptive",
    "Attack": "nearveil.attacks.base",
    "AttackResult": "nearveil.attacks.base",
    "BayesAttacker": "nearveil.attacks.bayes",
    "Circle": "nearveil.attacks.base",
    "CountedOracle": "nearveil.attacks.oracle",
    "Finding": "nearveil.attacks.base",
    "Inquiry": "nearveil.attacks.base",
    "Oracle": "nearveil.attacks.oracle",
    "OracleError": "nearveil.attacks.oracle",
    "OutOfQueriesError": "nearveil.attacks.oracle",
    "Outcome": "nearveil.attacks.base",
    "Sandwich": "nearveil.attacks.sandwich",
    "SimulatedService": "nearveil.attacks.simulator",
    "Spot": "nearveil.attacks.oracle",
    "Trace": "nearveil.attacks.base",
    "TraceStep": "nearveil.attacks.base",
    "Unfolding": "nearveil.attacks.unfolding",
    "attack_class": "nearveil.attacks.registry",
    "prior_from_points": "nearveil.attacks.bayes",
    "score_attacker": "nearveil.attacks.scores",
    "score_naming": "nearveil.attacks.scores",
}

__getattr__, __dir__ = lazy_names(__name__, _HOMES)
