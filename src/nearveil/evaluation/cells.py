"""Cells: single measurements, made apart and put together by the tables and figures that need them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import astuple, dataclass
from functools import lru_cache
from typing import Any, Literal

import numpy as np

from nearveil.attacks.bayes import BayesAttacker, prior_from_points
from nearveil.attacks.registry import attack_class
from nearveil.attacks.scores import (
    NAMING_TARGETS,
    TENTHS,
    density_tenths,
    naming_targets,
    score_attacker,
    score_naming,
)
from nearveil.audit.auditor import audit
from nearveil.audit.subjects import MechanismSubject
from nearveil.evaluation.attack_experiment import (
    AttackExperiment,
    AttackProtocol,
    AttackRow,
    AttackSetup,
    ScoredAttack,
    set_up_attacks,
)
from nearveil.evaluation.best_attacker import guess_people
from nearveil.evaluation.defences import CellsFrom, Defence
from nearveil.evaluation.runner import Cell, Result, data_fingerprint
from nearveil.evaluation.utility import (
    ColluderProtocol,
    QueryProtocol,
    draw_queries,
    ground_distance_m,
    measure_utilities,
)
from nearveil.io.datasets import Dataset
from nearveil.io.density import Density
from nearveil.mechanisms.base import Learned, Mechanism
from nearveil.mechanisms.cells import Cells
from nearveil.mechanisms.dprs import DPRS, ReleaseName
from nearveil.mechanisms.fit_cells import cells_from_density, cells_from_points, cells_from_published
from nearveil.mechanisms.fitting import FitMethod
from nearveil.mechanisms.intervals import PAPER_CENTRES, Intervals
from nearveil.mechanisms.planar_laplace import LARGEST_NOISE_M, PlanarLaplace
from nearveil.types import FloatArray, IntArray

# Intervals and cells fitted once in a process and used by every measurement that needs them.


PUBLISHED_BEFORE_M = 500.0
"""Noise of the places published before, that cells are made from."""
PUBLIC_SHARE = 0.5
"""Share of the people whose places count as public data, that cells are made from."""

_PUBLISHED_STREAM, _PUBLIC_STREAM = 101, 102


def ready(defence: Defence, dataset: Dataset, seed: int) -> Mechanism:
    """Return the mechanism of a defence, ready to publish a population."""
    mechanism = defence.build(dataset.region, seed)
    return fitted(mechanism, dataset, cells_from=defence.cells_from if defence.hides_among else "privtree")


def fitted(mechanism: Mechanism, dataset: Dataset, *, cells_from: CellsFrom = "privtree") -> Mechanism:
    """Return the mechanism ready to publish: itself, or else with what a fit learns; no fit is made twice."""
    if not mechanism.is_to_be_fitted:
        return mechanism.fitted_on(dataset.places)
    return mechanism.with_params(**{str(mechanism.learns): _learned(_Fit(mechanism, dataset, cells_from))})


class _Fit:
    """A fit by what decides its result."""

    def __init__(self, mechanism: Mechanism, dataset: Dataset, cells_from: CellsFrom) -> None:
        self.mechanism, self.dataset, self.cells_from = mechanism, dataset, cells_from
        self._key = (
            data_fingerprint(dataset), mechanism.resolved_region, type(mechanism), mechanism.fit_settings,
            mechanism.seed, cells_from,
        )  # fmt: skip

    def make(self) -> Learned | None:
        """Do it."""
        if self.cells_from != "privtree":
            return _free_cells(self.mechanism, self.dataset, self.cells_from)
        return self.mechanism.fitted_on(self.dataset.places).learned

    def __hash__(self) -> int:
        return hash(self._key)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Fit) and self._key == other._key


@lru_cache(maxsize=256)
def _learned(fit: _Fit) -> Learned | None:
    return fit.make()


def _free_cells(mechanism: Mechanism, dataset: Dataset, cells_from: CellsFrom) -> Cells:
    """Make cells that cost nobody anything more, or by exact counts, to compare them with."""
    region, seed, places = mechanism.resolved_region, mechanism.seed or 0, dataset.places
    plan, _ = mechanism.fit_settings
    if cells_from == "published":
        before = PlanarLaplace(noise_m=PUBLISHED_BEFORE_M, region=region)
        published = before.perturb(places, np.random.default_rng([seed, _PUBLISHED_STREAM]))
        return cells_from_published(published, region, PUBLISHED_BEFORE_M, plan)
    if cells_from == "public":
        public = np.random.default_rng([seed, _PUBLIC_STREAM]).random(len(places)) < PUBLIC_SHARE
        return cells_from_density(Density.of_points(places[public]), region, plan, population=len(places))
    return cells_from_points(places, region, plan)


# What a defence publishes in one run, and what that is worth to those who ask and to those who attack.


KS = (10, 20, 30, 40, 50)
PROTOCOLS: tuple[QueryProtocol, ...] = ("uniform", "users")
TAU_M = 100.0


@dataclass(frozen=True, slots=True, eq=False)
class Publication:
    """A fitted mechanism and the places it published."""

    dataset: Dataset
    mechanism: Mechanism
    places: FloatArray


def publish(dataset: Dataset, defence: Defence, seed: int) -> Publication:
    """Protect a population."""
    mechanism = ready(defence, dataset, seed)
    return Publication(dataset, mechanism, mechanism.perturb(dataset.places))


def utility_of(publication: Publication, queries: int, rng: np.random.Generator) -> dict[str, Any]:
    """Recall, ratio and distance error under both query protocols for every k, and how far people were moved."""
    dataset = publication.dataset
    true_m = dataset.region.to_metres(dataset.places)
    published_m = dataset.region.to_metres(publication.places)
    found: dict[str, Any] = {}
    ks = [k for k in KS if k < len(true_m)]
    for protocol in PROTOCOLS:
        asked = draw_queries(true_m, dataset.region, protocol, queries, rng)
        for one in measure_utilities(true_m, published_m, asked, ks=ks):
            found[f"{protocol} recall@{one.k}"] = one.recall
            found[f"{protocol} ratio@{one.k}"] = one.distance_ratio
            found[f"{protocol} pooled ratio@{one.k}"] = one.pooled_distance_ratio
            found[f"{protocol} distance mse@{one.k}"] = one.distance_mse_m2
    moved_m = ground_distance_m(dataset.places, publication.places)
    found["displacement_m"] = float(moved_m.mean())
    found["moved under 100 m"] = float(np.mean(moved_m < TAU_M))
    if (discs_m := publication.mechanism.discs_m) is not None:
        found["median radius_m"] = float(np.median(discs_m[1]))
    return found


def best_guess_of(publication: Publication, targets: int, rng: np.random.Generator) -> dict[str, Any]:
    """How wrong the Bayes attacker is, who knows the mechanism and every address, but not who lives where."""
    dataset = publication.dataset
    attacker = BayesAttacker(
        mechanism=publication.mechanism,
        prior=prior_from_points(dataset.places, publication.mechanism.resolved_region, spread_m=0.0),
        tau_m=TAU_M,
    )
    count = min(targets, len(dataset.places))
    rows = rng.choice(len(dataset.places), size=count, replace=False)
    score = score_attacker(attacker, dataset.places, publication.places, targets=rows, leave_out=False)
    return {
        "attacker error_m": score.median.error_m.value,
        "attacker acc": score.best_disc.accuracy.value,
        "read off error_m": score.read_off.error_m.value,
    }


def naming_of(publication: Publication, targets: int, rng: np.random.Generator) -> dict[str, Any]:
    """How many people that attacker names: its first guess is the right address."""
    dataset = publication.dataset
    tenths = _tenths_of(dataset)
    rows = naming_targets(tenths, targets, rng)
    score = score_naming(publication.mechanism, dataset.places, publication.places, targets=rows, tenths=tenths)
    sparsest = score.tenths == score.tenths.max()
    return {
        "named": float(score.probabilities.mean()),
        "named targets": len(rows),
        "named sparsest": float(score.probabilities[sparsest].mean()),
        "named sparsest targets": int(sparsest.sum()),
    }


def _tenths_of(dataset: Dataset) -> IntArray:
    return _density_tenths(dataset.region.to_metres(dataset.places).tobytes())


@lru_cache(maxsize=8)
def _density_tenths(places_m: bytes) -> IntArray:
    """The same for every defence of a population, and found once in a process."""
    return density_tenths(np.frombuffer(places_m).reshape(-1, 2))


# What one run of a defence is worth to those who ask who is near.


_UTILITY_QUERY_STREAM = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class UtilityCell(Cell):
    """Recall, ratio and distance error for every k, under both query protocols."""

    defence: Defence
    queries: int

    def measure(self, dataset: Dataset) -> dict[str, Any]:
        """Protect everybody once, and ask."""
        return utility_of(publish(dataset, self.defence, self.run_seed), self.queries, self.rng(_UTILITY_QUERY_STREAM))

    @property
    def seconds(self) -> float:
        """Asking takes most of it, and the fit, where no other cell has made it yet."""
        return 0.1 if self.defence.entry.mechanism.learns is None else 0.2


# What one run of a defence is worth to those who ask, and to the best attacker.


_QUERY_STREAM, _TARGET_STREAM, _NAMING_STREAM = 1, 2, 3
_CALIBRATION_SECONDS = 2.0


@dataclass(frozen=True, slots=True, kw_only=True)
class FrontierCell(Cell):
    """Utility for every k, the Bayes attacker's mean error and Acc over some targets, and whom it names.

    Attributes
    ----------
    named : int
        How many people are to be named: more than ``targets``, as naming takes less time than guessing a place.
    """

    defence: Defence
    queries: int
    targets: int
    named: int = NAMING_TARGETS

    def measure(self, dataset: Dataset) -> dict[str, Any]:
        """Protect everybody once, ask, guess, and name."""
        publication = publish(dataset, self.defence, self.run_seed)
        return (
            utility_of(publication, self.queries, self.rng(_QUERY_STREAM))
            | best_guess_of(publication, self.targets, self.rng(_TARGET_STREAM))
            | naming_of(publication, self.named, self.rng(_NAMING_STREAM))
        )

    @property
    def seconds(self) -> float:
        """Guessing takes most of it, naming some, and finding how to choose among cells."""
        each = self.defence.entry.seconds_per_guess
        naming = 0.5 if self.defence.entry.named_fast else 0.5 * each * self.named
        return 0.3 + each * self.targets + naming + _CALIBRATION_SECONDS * self.defence.hides_among


def named_in_a_run(defence: Defence, runs: int) -> int:
    """How many people to name in each run: 2,000, or as many in all runs together where it takes long."""
    return NAMING_TARGETS if defence.entry.named_fast else -(-NAMING_TARGETS // runs)


# The best attacker by how dense it is where people live.


@dataclass(frozen=True, slots=True, kw_only=True)
class TenthsCell(Cell):
    """The Bayes attacker's mean error and Acc, and whom it names, in each tenth of density, the densest first."""

    defence: Defence
    targets: int

    def measure(self, dataset: Dataset) -> dict[str, Any]:
        """Protect everybody once, and guess equally many people of each tenth."""
        publication = publish(dataset, self.defence, self.run_seed)
        rows = naming_targets(_tenths_of(dataset), self.targets, self.rng(_NAMING_STREAM))
        guesses = guess_people(publication.mechanism, dataset.places, publication.places, rows, tau_m=TAU_M)
        tenths = [guesses.tenths == tenth for tenth in range(TENTHS)]
        return {
            "error_m": [float(guesses.errors_m[own].mean()) for own in tenths],
            "acc": [float(guesses.found[own].mean()) for own in tenths],
            "named": [float(guesses.named[own].mean()) for own in tenths],
            "targets": [int(own.sum()) for own in tenths],
        }

    @property
    def seconds(self) -> float:
        """Mostly guessing."""
        return (
            1.0 + self.defence.entry.seconds_per_guess * self.targets + _CALIBRATION_SECONDS * self.defence.hides_among
        )


# The three releases of DPRS at equal intervals, in one run.


RELEASES: tuple[ReleaseName, ...] = ("paper", "interval", "metric")
RELEASE_KS = (10, 50)


@dataclass(frozen=True, slots=True, kw_only=True)
class ReleaseCell(Cell):
    """Recall of the three releases, users protocol, isotropic region.

    The intervals are fitted once, with half of epsilon, and used by all three; the other half is for the release, as
    the paper has it. The release ``metric`` has a loss per metre; to stand beside the others it gets the noise whose
    loss between two opposite points of the median disc is that half.
    """

    method: FitMethod
    epsilon: float
    queries: int

    def measure(self, dataset: Dataset) -> dict[str, Any]:
        """Fit once, publish three times, and ask."""
        fit_seed, release_seed, query_seed = np.random.SeedSequence([self.seed, self.run]).generate_state(3)
        paper = DPRS(
            release="paper",
            epsilon=self.epsilon,
            fit_method=self.method,
            centres=PAPER_CENTRES,
            region=dataset.region.with_scaling("isotropic"),
            seed=int(fit_seed),
        )
        intervals = paper.fit(dataset.places).intervals_
        true_m = dataset.region.to_metres(dataset.places)
        asked = draw_queries(true_m, dataset.region, "users", self.queries, np.random.default_rng(query_seed))
        found: dict[str, Any] = {"metric noise_m": metric_length_m(intervals, self.epsilon / 2)}
        for release in RELEASES:
            mechanism = released(release, intervals, self.epsilon, seed=int(release_seed))
            published_m = dataset.region.to_metres(mechanism.perturb(dataset.places))
            for one in measure_utilities(true_m, published_m, asked, ks=RELEASE_KS):
                found[f"{release} recall@{one.k}"] = one.recall
        return found

    @property
    def seconds(self) -> float:
        """Mostly the fit."""
        return 0.6


def metric_length_m(intervals: Intervals, epsilon: float) -> float:
    """Return the noise at which opposite points of the median disc lose epsilon."""
    # A loss of 2 for each such distance, and a disc is two radii across.
    # Noise that is wider than any, in a city, moves everybody to its edge just as well.
    return min(4 * float(np.median(intervals.radii_m)) / epsilon, LARGEST_NOISE_M)


def released(release: ReleaseName, intervals: Intervals, epsilon: float, *, seed: int) -> DPRS:
    """Return the mechanism of a release with given intervals, half of epsilon being spent on them."""
    if release == "metric":
        length_m = metric_length_m(intervals, epsilon / 2)
        return DPRS(release=release, noise_m=length_m, intervals=intervals, seed=seed)
    # How the intervals were found decides the paper's scales.
    method: FitMethod = "pic" if intervals.method == "pic" else "private-grid"
    # The paper's release takes the whole budget and halves it itself.
    own = epsilon if release == "paper" else epsilon / 2
    return DPRS(release=release, epsilon=own, fit_method=method, intervals=intervals, seed=seed)


# One attack on some people, of an open service or a protected one.


@dataclass(frozen=True, slots=True, kw_only=True)
class AttackCell(Cell):
    """One attack with ``accounts`` accounts against ``instances`` people."""

    attack: str
    accounts: int
    k: int
    instances: int
    defence: Defence | None = None
    colluders: ColluderProtocol = "exact"
    tells_exact: bool = False

    def measure(self, dataset: Dataset) -> dict[str, Any]:
        """Attack everybody in turn; the result has every attempt, to be put together with those of other runs."""
        mechanism = None if self.defence is None else ready(self.defence, dataset, self.run_seed)
        experiment = AttackExperiment(dataset, self._protocol, mechanism)
        attempts = experiment.attempts(self.run, self._attack_setup(dataset), self.k)
        return {"attempts": [astuple(attempt) for attempt in attempts]}

    def row(self, dataset: Dataset, results: Sequence[Result]) -> AttackRow:
        """Put the results of all runs together."""
        runs = [[ScoredAttack(*values) for values in result["attempts"]] for result in results]
        # Nothing is published here, so the mechanism need not be fitted.
        mechanism = None if self.defence is None else self.defence.build(dataset.region, self.run_seed)
        return AttackExperiment(dataset, self._protocol, mechanism).row(self.k, self._attack_setup(dataset), runs)

    @property
    def seconds(self) -> float:
        """Mostly the attacks."""
        return self.instances * attack_class(self.attack).seconds_each + (0.0 if self.defence is None else 0.1)

    @property
    def _protocol(self) -> AttackProtocol:
        return AttackProtocol(
            runs=self.run + 1,
            instances=self.instances,
            seed=self.seed,
            published_colluders=self.colluders == "published",
            tells_exact=self.tells_exact,
        )

    def _attack_setup(self, dataset: Dataset) -> AttackSetup:
        accounts = [self.accounts] if attack_class(self.attack).takes_more_colluders else []
        return set_up_attacks([self.attack], dataset.region, colluders=accounts, tau_m=AttackProtocol().tau_m)[0]


# One audit: whether what a defence claims is true, as far as its outputs show.


ClaimName = Literal["paper", "own"]


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditCell(Cell):
    """An audit of the paper's claim or of Nearveil's own, on intervals fitted to the population."""

    defence: Defence
    claim: ClaimName
    samples: int

    def measure(self, dataset: Dataset) -> dict[str, Any]:
        """Look for two places between which more is lost than is claimed."""
        mechanism = ready(self.defence, dataset, self.run_seed)
        report = audit(MechanismSubject(mechanism), self.claim, samples=self.samples, seed=self.run_seed)
        claim, witness = report.claim, report.witness
        return {
            "verdict": str(report.verdict),
            "claimed": claim.epsilon,
            "delta": claim.delta,
            "at least": report.epsilon_lower,
            "confidence": report.confidence,
            "unit": claim.unit,
            "pair": "" if witness is None else str(witness.pair),
            "hits": 0.0 if witness is None else witness.counts.hits / witness.counts.trials,
            "false hits": 0.0 if witness is None else witness.counts.false_hits / witness.counts.false_trials,
        }

    @property
    def seconds(self) -> float:
        """By the number of samples."""
        return 0.5 + 2.5e-6 * self.samples
