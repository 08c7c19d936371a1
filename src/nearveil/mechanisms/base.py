"""Mechanism: the base class of everything that perturbs locations.

Also here: processing many people on all cores, and the guarantee that mechanisms with local differential privacy
share.
"""

from __future__ import annotations

import inspect
import math
import os
import sys
from abc import ABC, abstractmethod
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, ClassVar, Literal, Protocol, Self

import numpy as np

from nearveil.errors import UsageError
from nearveil.privacy.guarantee import FURTHER_RELEASES, SEEDED_NOTE, Basis, Certificate, Guarantee, Notion
from nearveil.randomness import (
    NumberedRows,
    Randomness,
    RowKeystream,
    as_randomness,
    seeded_randomness,
    stream_key,
)
from nearveil.region import Region, as_region
from nearveil.types import FloatArray, ObjectArray, Progress

OutputKind = Literal["default", "pandas", "polars"]


class Learned(Protocol):
    """What a mechanism learns from people and is then public: intervals, cells."""

    @property
    def region(self) -> Region:
        """Where the people are."""

    @property
    def seeded(self) -> bool:
        """Whether its noise came from a seed."""

    @property
    def is_free(self) -> bool:
        """Whether it cost nobody anything."""

    def guarantee(self, delta: float) -> Guarantee:
        """Return what it cost each person, at most at this delta."""

    def to_json(self) -> str:
        """Return it as one JSON document."""


class FitRefusedError(UsageError):
    """A private fit has looked at people and cannot be used. That tells something of them, at the cost of the fit.

    Attributes
    ----------
    cost : Guarantee
        What the fit costs each person. With a ledger it is charged before the refusal is told.
    """

    def __init__(self, message: str, cost: Guarantee) -> None:
        super().__init__(message)
        self.cost = cost


class Mechanism(ABC):
    """Moves people: true places in, published places out.

    A subclass has a keyword-only constructor that validates its parameters and stores them under their own names,
    ``region`` among them, and implements `draw` and `guarantee`; where it has a density, also `log_density` and
    `rescaled`. Points are (latitude, longitude) in degrees at the edge, and (x, y) in the mechanism's `frame` inside:
    metres east and north of the region's centre, or the square [-1, 1]².
    """

    frame: Literal["metres", "square"] = "metres"
    region: Region | str | None = None
    seed: int | None = None
    learns: ClassVar[str | None] = None
    """The constructor's parameter for what `fit` learns from people otherwise, such as ``"intervals"``."""

    # -- what a mechanism does -------------------------------------------------------------------------------

    @abstractmethod
    def draw(self, x: FloatArray, rows: RowKeystream) -> FloatArray:
        """Draw a place for every row of ``x``, in the frame, before `remap` and before it is clamped to the region.

        All randomness comes from ``rows``, by `RowKeystream.uniforms` or by blocks, and that of a row goes into its
        own place only. So the same rows draw the same, in any batches and order, and no place depends on another.
        """

    def log_density(self, x: FloatArray, t: FloatArray) -> FloatArray:
        """Log density of `draw` at ``t`` given ``x``, both in the frame and broadcast against each other."""
        raise NotImplementedError(f"{type(self).__name__} has no density")

    def density_given(self, x: FloatArray) -> Callable[[FloatArray], FloatArray]:
        """Return a function that gives `log_density` for all pairs, (n, 2) and (m, 2) to (n, m), to be called often.

        A mechanism overrides it where part of the work need be done once for each ``x`` only.
        """
        return lambda t: self.log_density(x[:, None], t[None])

    @property
    def has_density(self) -> bool:
        """Whether `log_density` is implemented; without it, attackers and auditors look at draws alone."""
        return type(self).log_density is not Mechanism.log_density

    def remap(self, t: FloatArray) -> FloatArray:
        """Move what was drawn once more, in the frame, looking at nothing else: by default, not at all.

        `log_density` speaks of the stage before. What comes after it cannot add to the loss.
        """
        return t

    @property
    def remaps(self) -> bool:
        """Whether `remap` moves anything, so that what is published does not follow `log_density`."""
        return False

    @property
    @abstractmethod
    def guarantee(self) -> Guarantee:
        """What the published places promise, and what they do not."""

    def rescaled(self, factor: float) -> Self:
        """Return a copy whose noise is ``factor`` times as wide and whose guarantee is not: to test tests with."""
        raise NotImplementedError(f"{type(self).__name__} cannot be rescaled by {factor:g}")

    def fit(self, points: object, y: object = None, *, progress: Progress | None = None) -> Self:
        """Do nothing but check the points: only mechanisms with intervals or cells learn from data."""
        del y, progress
        self.resolved_region.check(points)
        return self

    @property
    def learned(self) -> Learned | None:
        """What is in use of what `fit` learns: as given, or else as learned; None before that, or if nothing is."""
        given = self.given_learned
        return self.fitted if given is None else given

    @property
    def fitted(self) -> Learned | None:
        """What `fit` learned, as it came out; None before that, or if nothing is learned."""
        found: Learned | None = None if self.learns is None else getattr(self, f"{self.learns}_", None)
        return found

    @property
    def given_learned(self) -> Learned | None:
        """What the constructor was given of what `fit` would learn otherwise."""
        given: Learned | None = None if self.learns is None else getattr(self, self.learns)
        return given

    @property
    def is_to_be_fitted(self) -> bool:
        """Whether `fit` would learn something from people."""
        return self.learns is not None and self.given_learned is None

    @property
    def cost_follows_fit(self) -> bool:
        """Whether the cost of a release depends on what `fit` learned: what is said of the cost then tells of that."""
        return self.learns is not None

    @property
    def mean_noise_m(self) -> float | None:
        """Mean distance that the noise moves a location, in meters; None where it depends on the location."""
        return None

    @property
    def fit_steps(self) -> int:
        """How often `fit` reports progress."""
        return 1

    def settled(self) -> Self:
        """Return the mechanism with all numbers that it draws by, as found here: another machine then draws the same.

        Most have no numbers but their parameters.
        """
        return self

    def perturb(
        self,
        points: object,
        rng: Randomness | np.random.Generator | int | None = None,
        *,
        progress: Progress | None = None,
    ) -> FloatArray:
        """Publish a place for every person.

        Parameters
        ----------
        points : array-like of shape (n, 2), or a frame
            True places: latitude, longitude. All must lie in the region.
        rng : optional
            A seed or generator to make the result repeatable; by default ``seed``, or else secure randomness. A result
            drawn with ``rng`` is as repeatable as that is: the guarantee speaks of the mechanism without it.
        progress : callable, optional
            Called with the number of people just finished.

        Returns
        -------
        ndarray of shape (n, 2)
            Published places, clamped to the region and rounded to 1e-6 degree.
        """
        people = self.resolved_region.check(points)
        self._prepare()
        key = stream_key(self.seed if rng is None else rng)
        published = np.empty_like(people)

        def publish(part: slice) -> None:
            rows = NumberedRows(key, part.start, part.stop - part.start)
            published[part] = self._released(self.draw(self.enter(people[part]), rows))

        for_each_slice(len(people), publish, progress)
        return published

    def perturb_rows(self, points: object, rows: RowKeystream) -> FloatArray:
        """Publish a place for every person, with randomness that belongs to them; the same rows publish the same."""
        people = self.resolved_region.check(points)
        self._prepare()
        return self._released(self.draw(self.enter(people), rows))

    def _released(self, drawn: FloatArray) -> FloatArray:
        return self.resolved_region.publish(self.leave(self.remap(drawn)))

    def enter(self, points: FloatArray) -> FloatArray:
        """Take degrees to the mechanism's frame."""
        region = self.resolved_region
        return region.to_metres(points) if self.frame == "metres" else region.to_square(points)

    def leave(self, xy: FloatArray) -> FloatArray:
        """Take the mechanism's frame back to degrees; what lies beyond the region comes to its edge."""
        region = self.resolved_region
        return region.from_metres(xy) if self.frame == "metres" else region.from_square(xy)

    @property
    def resolved_region(self) -> Region:
        """The region as a value, also where it was given by name or by file; an error if there is none."""
        if self.given_learned is not None:
            return self.given_learned.region
        if self.region is None:
            raise UsageError(f"{type(self).__name__} needs a region: region='berlin', a box, or a GeoJSON file")
        if not isinstance(self.region, str):
            return self.region
        # A file is read once: it may change while people are moved.
        name, region = self.__dict__.get("_region_as_read", (None, None))
        if region is None or name != self.region:
            region = as_region(self.region)
            self._region_as_read = (self.region, region)
        return region

    def _prepare(self) -> None:
        """Build what `draw` needs, once, before threads share it."""
        return

    def _own_randomness(self, stream: int) -> Randomness:
        return as_randomness(None) if self.seed is None else seeded_randomness(self.seed, stream)

    def _notes(self) -> tuple[str, ...]:
        return () if self.seed is None else (SEEDED_NOTE,)

    # -- scikit-learn, without needing it ---------------------------------------------------------------------

    def transform(self, points: object) -> Any:
        """Publish a place for every person: `perturb` under scikit-learn's name, for arrays and frames.

        A frame of pandas, GeoPandas, Polars or Arrow comes back as one of its kind, with the locations alone, in the
        order of its rows. That order, and other columns, can give places away: `nearveil.protect_frame` takes care of
        both. `set_output` chooses another kind.
        """
        published = self.perturb(points)
        chosen = self._output_kind
        if chosen == "default" and not hasattr(points, "columns"):
            return published
        from nearveil.io.frames import frame_by_name, frame_of_points  # noqa: PLC0415 - for frames only

        return frame_of_points(published, points) if chosen == "default" else frame_by_name(published, chosen, points)

    def fit_transform(self, points: object, y: object = None) -> Any:
        """Fit, then publish."""
        return self.fit(points, y).transform(points)

    def set_output(self, *, transform: OutputKind | None = None) -> Self:
        """Choose what `transform` returns, as in scikit-learn: ``"pandas"``, ``"polars"``, or ``"default"``.

        By default it returns an array for an array, and a frame of the same kind for a frame.
        """
        if transform is None:
            return self
        if transform not in ("default", "pandas", "polars"):
            raise UsageError("set_output takes transform='default', 'pandas' or 'polars'")
        # scikit-learn's clone copies this by its name.
        self._sklearn_output_config = {"transform": transform}
        return self

    @property
    def _output_kind(self) -> OutputKind:
        own: OutputKind | None = getattr(self, "_sklearn_output_config", {}).get("transform")
        if own is not None or "sklearn" not in sys.modules:
            return own or "default"
        everywhere: OutputKind = sys.modules["sklearn"].get_config()["transform_output"]
        return everywhere

    def get_feature_names_out(self, input_features: object = None) -> ObjectArray:
        """Return the names of what `transform` returns."""
        del input_features
        return np.array(["latitude", "longitude"], dtype=object)

    @classmethod
    def _parameter_names(cls) -> list[str]:
        return sorted(name for name in inspect.signature(cls).parameters)

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Return the constructor's parameters by name."""
        del deep
        return {name: getattr(self, name) for name in self._parameter_names()}

    def set_params(self, **params: Any) -> Self:
        """Set constructor parameters by name, with the constructor's checks; what was fitted is forgotten."""
        known = self.get_params()
        for name in params:
            if name not in known:
                raise UsageError(f"{type(self).__name__} has no parameter {name!r}; it has {', '.join(known)}")
        fresh = type(self)(**{**known, **params})
        fresh.set_output(transform=getattr(self, "_sklearn_output_config", {}).get("transform"))
        self.__dict__.clear()
        self.__dict__.update(fresh.__dict__)
        return self

    def with_params(self, **params: Any) -> Self:
        """Return an unfitted copy with some parameters changed.

        A seed can always be given: all randomness comes from rows, also where the constructor does not ask for one.
        """
        given = {"seed": self.seed, **self.get_params(), **params}
        seed = given["seed"] if "seed" in self._parameter_names() else given.pop("seed")
        copy = type(self)(**given)
        copy.seed = seed
        return copy

    def __sklearn_tags__(self) -> Any:
        # Only scikit-learn calls this, so it is there to be imported.
        from sklearn.utils import Tags, TargetTags, TransformerTags  # noqa: PLC0415

        return Tags(
            estimator_type="transformer",
            target_tags=TargetTags(required=False),
            transformer_tags=TransformerTags(preserves_dtype=["float64"]),
            requires_fit=False,
        )

    def __repr__(self) -> str:
        settings = ", ".join(f"{name}={value!r}" for name, value in self.get_params().items())
        return f"{type(self).__name__}({settings})"


# Many people, a chunk at a time.


CHUNK_ROWS = 1 << 16


def chunk_slices(rows: int) -> list[slice]:
    """Cut ``rows`` into consecutive slices of `CHUNK_ROWS`; the cut does not depend on the machine."""
    return [slice(start, min(start + CHUNK_ROWS, rows)) for start in range(0, rows, CHUNK_ROWS)]


def for_each_slice(rows: int, work: Callable[[slice], None], progress: Progress | None = None) -> None:
    """Call ``work`` on every chunk, on all cores."""
    slices = chunk_slices(rows)
    if len(slices) == 1:
        work(slices[0])
        if progress:
            progress(rows)
        return
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        for part, _ in zip(slices, pool.map(work, slices), strict=True):
            if progress:
                progress(part.stop - part.start)


# The statement of local differential privacy.


def rounding_delta(epsilon: float, choices: int) -> float:
    """Return what choosing among ``choices`` outcomes by one 53-bit number can add to delta.

    Each outcome's probability is off by at most 2⁻⁵³, on both sides of the comparison, one of them times e^epsilon.
    """
    return min(1.0, choices * 2.0**-53 * (1 + math.exp(epsilon)))


def local_guarantee(
    *,
    epsilon: float,
    basis: Basis,
    because: str,
    notes: tuple[str, ...] = (),
    delta: float = 0.0,
    certificate: Certificate | None = None,
) -> Guarantee:
    """Return the guarantee of epsilon-local differential privacy over the whole region."""
    return Guarantee(
        title="Every published place",
        notion=Notion.LOCAL,
        epsilon=epsilon,
        unit="per person",
        delta=delta,
        neighbours="any two places of the region that one published place may stand for, however far apart",
        promise="any two places of the region look alike up to epsilon, near or far",
        not_covered=FURTHER_RELEASES,
        basis=basis,
        because=because,
        notes=notes,
        certificate=certificate,
    )
