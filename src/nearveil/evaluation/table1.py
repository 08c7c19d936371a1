"""Table 1 of the paper, with the attacks it lacks: every attack against the same people, four populations, three k."""

from __future__ import annotations

from nearveil.evaluation.attack_experiment import AttackExperiment, AttackProtocol, AttackRow
from nearveil.evaluation.contenders import ATTACK_NAMES, contenders
from nearveil.io.datasets import Dataset
from nearveil.types import Progress

KS = (10, 30, 50)
COLLUDERS = (1, 4, 8)


def attacks_in_table1(runs: int, instances: int) -> int:
    """How many attacks one population takes."""
    return len(KS) * (len(ATTACK_NAMES) - 1 + len(COLLUDERS)) * runs * instances


def table1_rows(
    dataset: Dataset, protocol: AttackProtocol, *, cores: int, progress: Progress | None = None
) -> list[AttackRow]:
    """Return the rows of one population."""
    experiment = AttackExperiment(dataset, protocol, None)
    fighters = contenders(ATTACK_NAMES, dataset.region, colluders=COLLUDERS, tau_m=protocol.tau_m)
    return experiment.run(fighters, KS, cores=cores, progress=progress)
