"""What several parts of the paper share: its mechanisms, what their lists are worth, and attacks on a service."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from types import MappingProxyType
from typing import Any

import numpy as np
import pandas as pd
from scipy.spatial import cKDTree

from nearveil.attacks.base import AttackResult, Outcome
from nearveil.attacks.oracle import point_of
from nearveil.attacks.registry import attack_class
from nearveil.attacks.simulator import SimulatedService
from nearveil.evaluation import paper
from nearveil.evaluation.attack_experiment import AttackSetup, Instance, Service, compare, draw_instances, warm_up
from nearveil.evaluation.stats import Mean
from nearveil.evaluation.study import TAU_M, differences, generator, means
from nearveil.evaluation.utility import QueryProtocol, draw_queries, measure_utilities
from nearveil.io.datasets import Dataset
from nearveil.mechanisms.base import Mechanism
from nearveil.mechanisms.dprs import DPRS
from nearveil.mechanisms.planar_laplace import PlanarLaplace
from nearveil.mechanisms.square import Square
from nearveil.mechanisms.srr import SRR
from nearveil.privacy.accounting import Noise
from nearveil.region import Region
from nearveil.types import FloatArray

CENTERS = 800
"""The paper does not say how many centers Table 3 has."""
K, KS = 10, (10, 20, 30, 40, 50)
BASELINES = ("SRR", "Square", "2D Laplace")
GAUSSIAN = "DPRS, Gaussian"
NEARVEIL, REDRAWN, LITTLE_NOISE = "Nearveil", "redrawn", "noise of scale 1/epsilon"
READINGS: dict[str, dict[str, Any]] = {
    REDRAWN: {"outside": "redraw"},
    "kept": {"outside": "keep"},
    "clipped": {"outside": "clip"},
    "as printed": {"outside": "as printed"},
    f"kept, {LITTLE_NOISE}": {"outside": "keep", "scale": "1/epsilon"},
    f"as printed, {LITTLE_NOISE}": {"outside": "as printed", "scale": "1/epsilon"},
    "redrawn, largest order": {"outside": "redraw", "order": math.inf},
}
"""What the paper leaves open about DPRS, as choices of the reference: centers that noise throws out of the region, the
scale of PIC's noise, and the order of the accounting. The first is what Nearveil does."""

# Streams of a run: what is compared shares them.
PROTECTION, QUERIES, ATTACKS, REFERENCE = 1, 2, 3, 4


def paper_region(region: Region) -> Region:
    """Return the region as the paper lays its square over it, each axis scaled on its own."""
    return region.with_scaling("per-axis")


def seed_of(seed: int, run: int) -> int:
    """Return the seed of a run for what takes a number."""
    return int(generator(seed, run, PROTECTION).integers(2**32))


def published(
    dataset: Dataset, *, mechanism: str = "DPRS", reading: str = NEARVEIL, epsilon: float, centers: int = CENTERS,
    gamma: float = 0.5, replaced: Mapping[str, str] = MappingProxyType({}), seed: int, run: int,
) -> tuple[Mechanism | None, FloatArray]:  # fmt: skip
    """Return everybody's published location in meters, and Nearveil's mechanism where it is not the reference's.

    Baselines are calibrated by their own definitions to the whole region. For planar Laplace, epsilon is the loss
    between opposite corners.
    """
    scaled = paper_region(dataset.region)
    noise: Noise = "gaussian" if mechanism == GAUSSIAN else "laplace"
    if reading != NEARVEIL:
        choices: dict[str, Any] = {"m": centers, "gamma": gamma, "noise": noise} | READINGS[reading] | dict(replaced)
        square = scaled.to_square(dataset.places)
        found = paper.dprs(square, epsilon, generator(seed, run, PROTECTION), **choices)
        return None, scaled.to_metres(scaled.clip(scaled.from_square(found.points)))
    common: dict[str, Any] = {"region": scaled, "seed": seed_of(seed, run)}
    baselines: dict[str, Callable[[], Mechanism]] = {
        "SRR": lambda: SRR(epsilon=epsilon, **common),
        "Square": lambda: Square(epsilon=epsilon, **common),
        "2D Laplace": lambda: PlanarLaplace(noise_m=4 * scaled.radius_m / epsilon, **common),
    }
    dprs = partial(DPRS, release="paper", epsilon=epsilon, noise=noise, centres=centers, gamma=gamma, **common)
    own = baselines.get(mechanism, dprs)().fitted_on(dataset.places)
    return own, dataset.region.to_metres(own.perturb(dataset.places))


def ask(
    dataset: Dataset, *, queries: int, seed: int, run: int, ks: Sequence[int] = KS, **settings: Any
) -> list[dict[str, Any]]:
    """Publish everybody once, and return what lists are worth, for uniform queries and for queries from users."""
    served_m = published(dataset, seed=seed, run=run, **settings)[1]
    return utility(dataset, served_m, queries, seed, run, [k for k in ks if k < len(dataset.places) - 1] or ks)


def ask_and_attack(
    dataset: Dataset, *, queries: int, instances: int, seed: int, run: int, **settings: Any
) -> dict[str, Any]:
    """Do the same for lists of ten, and attack with ZO-LIA: accounts are exact, or published like everybody."""
    own, served_m = published(dataset, seed=seed, run=run, **settings)
    found = utility(dataset, served_m, queries, seed, run, [K])[0]
    chosen = targets(dataset, served_m, K, instances, seed, run)
    for suffix, through in (("", None), ("_published", own)):
        if not suffix or through is not None:
            one = attack_users("zo-lia", dataset, served_m, chosen, k=K, seed=seed_of(seed, run), through=through)
            found |= {f"acc{suffix}": one["acc"], f"dist_km{suffix}": one["dist_m"] / 1000}
    return found


def utility(
    dataset: Dataset, published_m: FloatArray, queries: int, seed: int, run: int, ks: Sequence[int]
) -> list[dict[str, Any]]:
    """Return recall, both ratios and the squared error of distances, for uniform queries and for queries from users."""
    true_m = dataset.region.to_metres(dataset.places)
    rng = generator(seed, run, QUERIES)
    rows: list[dict[str, Any]] = [{"k": k} for k in ks]
    protocols: tuple[tuple[QueryProtocol, str], ...] = (("uniform", ""), ("users", "users_"))
    for protocol, prefix in protocols:
        asked = draw_queries(true_m, dataset.region, protocol, queries, rng)
        for row, one in zip(rows, measure_utilities(true_m, published_m, asked, ks=ks), strict=True):
            row |= {
                f"{prefix}recall": one.recall,
                f"{prefix}ratio_pooled": one.pooled_distance_ratio,
                f"{prefix}ratio": one.distance_ratio,
                f"{prefix}mse_km2": one.distance_mse_m2 / 1e6,
            }
    return rows


def targets(dataset: Dataset, served_m: FloatArray, k: int, count: int, seed: int, run: int) -> list[Instance]:
    """Draw whom to attack by the paper's protocol; the starts are the same whatever is published."""
    service = SimulatedService(dataset.region, served_m, rng=seed)
    true_m = dataset.region.to_metres(dataset.places)
    return draw_instances(service, true_m, k=k, count=count, rng=generator(seed, run, ATTACKS))


def attack_users(
    name: str, dataset: Dataset, served_m: FloatArray, drawn: Sequence[Instance], *, k: int, accounts: int = 1,
    seed: int, through: Mechanism | None = None, tells_exact: bool = False,
) -> dict[str, Any]:  # fmt: skip
    """Attack users of a service that has them at ``served_m``; accounts are published ``through`` a mechanism."""
    attack = attack_class(name).for_region(dataset.region, tau_m=TAU_M, accounts=accounts)
    service = _service(dataset, served_m, seed=seed, accounts_through=through, tells_exact=tells_exact)
    setup = AttackSetup(attack, accounts)
    warm_up(setup, dataset.region, service.answers)
    return _scores(service.attack(setup, k, drawn), drawn, service, dataset)


def attack_with_reference(
    name: str, dataset: Dataset, served_m: FloatArray, drawn: Sequence[Instance], *, k: int, seed: int, run: int,
    **choices: Any,
) -> dict[str, Any]:  # fmt: skip
    """Do the same with ``gi_lia`` or ``zo_lia`` of the reference."""
    attack = {"GI-LIA": paper.gi_lia, "ZO-LIA": paper.zo_lia}[name]
    tree, rng, found = cKDTree(served_m), generator(seed, run, REFERENCE), list[AttackResult]()
    for one in drawn:
        started = time.perf_counter()
        point, queries = attack(tree, one.target, np.array(one.start), k, rng, **choices)
        own: dict[str, Any] = {"queries": queries, "seconds": time.perf_counter() - started}
        found.append(AttackResult(attack=name, outcome=Outcome.FOUND, estimate=point_of(point), **own))
    return _scores(found, drawn, _service(dataset, served_m), dataset)


def _service(dataset: Dataset, served_m: FloatArray, **options: Any) -> Service:
    return Service(region=dataset.region, places=dataset.region.from_metres(served_m), **options)


def _scores(
    found: Sequence[AttackResult], drawn: Sequence[Instance], service: Service, dataset: Dataset
) -> dict[str, Any]:
    true_m = dataset.region.to_metres(dataset.places)
    attempts = [compare(*one, service, true_m=true_m) for one in zip(found, drawn, strict=True)]
    error_m, _, queries, seconds, *_ = np.array(attempts).T
    columns = {"dist_m": error_m, "cost_s": seconds, "queries": queries, "acc": error_m <= TAU_M}
    return {name: float(values.mean()) for name, values in columns.items()} | {"instances": len(found)}


def estimated(runs: pd.DataFrame, by: Sequence[str], columns: Sequence[str]) -> pd.DataFrame:
    """Return columns with intervals over runs: shares of users found as such, means of all else.

    Numbers of others come without a number of users, and perhaps without a column: then there is nothing.
    """
    shares = [name for name in columns if name.startswith("acc")]
    found = means(runs, by, columns, shares=shares, cases="instances")
    return found.map(lambda cell: None if isinstance(cell, Mean) and math.isnan(cell.value) else cell)


def beside(found: pd.DataFrame, by: Sequence[str], columns: Mapping[str, str], of: str) -> pd.DataFrame:
    """Return rows by ``by``, and for each measure a column for each source that has it, ``of`` which they are."""
    sources = found[of].unique()
    wide = found.astype(dict.fromkeys(columns, object)).pivot(index=list(by), columns=of, values=list(columns))
    wide = wide.reindex(pd.MultiIndex.from_frame(found[list(by)].drop_duplicates()))
    wide = wide[[(name, source) for name in columns for source in sources if wide[(name, source)].notna().any()]]
    wide = wide.where(wide.notna(), None).reset_index()
    wide.columns = pd.MultiIndex.from_tuples([(columns[name], of) if of else ("", name) for name, of in wide])
    return wide.rename(columns={"dataset": "data set"}, level=1)


def disagreements(
    runs: pd.DataFrame, by: Sequence[str], columns: Sequence[str], of: str, pair: tuple[str, str]
) -> dict[str, int]:
    """Count paired differences of two sources whose interval does not hold nought, and all that there are."""
    found = differences(runs, by, columns, of=of, first=pair[0], second=pair[1])
    # A single run has no interval to judge by.
    known = [one for name in columns for one in found[name] if one.half_width is not None]
    return {"disagreements": sum(abs(one.value) > one.half_width + 1e-9 for one in known), "compared": len(known)}
