"""Cell: one measurement on one population, with everything that it depends on."""

from __future__ import annotations

import hashlib
import json
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from nearveil.evaluation.hypotheses import Population
from nearveil.io.datasets import Dataset

Result = Mapping[str, Any]
"""What a cell measured: names and numbers, or lists of numbers."""

NOBODY = "nobody"

_SEED_STEP = 1_000_003


@dataclass(frozen=True, slots=True, kw_only=True)
class Cell(ABC):
    """One measurement. Equal cells give equal results, but for seconds.

    Attributes
    ----------
    dataset : str
        The population, by name; `NOBODY` where none is needed.
    seed, run : int
        Of the whole report, and which repetition this is.
    population : str
        How the population is read: as stated, or by a hypothesis about the paper's Table 3.
    """

    dataset: str
    seed: int
    run: int
    population: Population = "stated"

    @abstractmethod
    def measure(self, dataset: Dataset) -> dict[str, Any]:
        """Do the work."""

    @property
    @abstractmethod
    def seconds(self) -> float:
        """About how long it takes, for the time left on the progress bar and to start long ones first."""

    @property
    def alone(self) -> bool:
        """Whether nothing else may run meanwhile, because it measures time."""
        return False

    @property
    def run_seed(self) -> int:
        """Seed of the noise in this run."""
        return self.seed * _SEED_STEP + self.run * 7919

    def rng(self, *purpose: int) -> np.random.Generator:
        """Randomness of this run for one purpose: the same for every defence, so that they meet the same people."""
        return np.random.default_rng([self.run_seed, *purpose])

    def key(self, circumstances: str) -> str:
        """Name the cell's result, under circumstances such as the code and the data."""
        about = asdict(self)
        if isinstance(about.get("defence"), dict):
            about["defence"].pop("label")  # what it is called does not change what it does
        told = json.dumps([circumstances, type(self).__name__, about], sort_keys=True)
        return hashlib.sha256(told.encode()).hexdigest()[:32]
