"""The ledger of what happened, the cost of it, and the budgets that refuse more."""

from nearveil.privacy.ledger.budget import Budget, Left, OverspentError, Windows
from nearveil.privacy.ledger.cost import (
    Cost,
    Rule,
    parallel_cost,
    renyi_cost,
    sequential_cost,
)
from nearveil.privacy.ledger.events import Event, Fit, GaussianAnswers, Release
from nearveil.privacy.ledger.ledger import Ledger, Recorded

__all__ = [
    "Budget",
    "Cost",
    "Event",
    "Fit",
    "GaussianAnswers",
    "Ledger",
    "Left",
    "OverspentError",
    "Recorded",
    "Release",
    "Rule",
    "Windows",
    "parallel_cost",
    "renyi_cost",
    "sequential_cost",
]
