"""Mechanism: the base class of everything that perturbs locations, and what several mechanisms share."""

from __future__ import annotations

import copy
import inspect
import math
import os
from abc import ABC, abstractmethod
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Protocol, Self

import numpy as np

from nearveil.errors import UsageError, naming_keywords, without_context
from nearveil.geodesy import wrap_longitude
from nearveil.privacy.guarantee import FURTHER_RELEASES, SEEDED_NOTE, Guarantee, PrivacyDefinition
from nearveil.randomness import NumberedRows, Randomness, RowKeystream, as_randomness, seeded_randomness, stream_key
from nearveil.region import WHOLE_EARTH, Region, as_region
from nearveil.sphere import great_circle_m
from nearveil.types import FloatArray, IntArray, Progress

if TYPE_CHECKING:
    from typing_extensions import TypeIs

    from nearveil.mechanisms.step_channel import StepChannel


class Learned(Protocol):
    """What a mechanism learns from users of a region and is then public: intervals, cells."""

    def __len__(self) -> int:
        """How many intervals or cells there are."""

    @property
    def region(self) -> Region:
        """Where the users are."""

    @property
    def seeded(self) -> bool:
        """Whether its noise came from a seed."""

    @property
    def is_free(self) -> bool:
        """Whether it cost nobody anything."""

    @property
    def unit(self) -> Literal["user", "row"]:
        """Whose data the cost counts: a row's, where a user may have had several."""

    def guarantee(self, delta: float) -> Guarantee:
        """Return what it cost each user, at most at this delta."""

    def to_json(self) -> str:
        """Return it as one JSON document."""


class FitRefusedError(UsageError):
    """A private fit has looked at users and cannot be used. That tells something of them, at the ``cost`` of the fit.

    With a ledger it is charged before the refusal is told.
    """

    def __init__(self, message: str, cost: Guarantee) -> None:
        super().__init__(message)
        self.cost = cost


class Mechanism(ABC):
    """Moves users: true locations in, published ones out.

    A subclass has a constructor that validates its parameters and stores them under their own names, ``region`` among
    them, and implements `draw` and `guarantee`; where it has a density, also `log_density` and `rescaled`. Points are
    (latitude, longitude) in degrees at the edge, and inside in the mechanism's `frame`: the same degrees; or (x, y), in
    meters east and north of the region's center or in the square [-1, 1]².
    """

    frame: Literal["degrees", "metres", "square"] = "metres"
    region: Region | str | None = None
    seed: int | None = None
    learns: ClassVar[str | None] = None
    """The constructor's parameter for what `fit` learns from users otherwise, such as ``"intervals"``."""
    places: ClassVar[Literal["grid", "cells"] | None] = None
    """What `perturb_users` takes for users' places: cells of a secret grid of each user, public cells, or nothing."""

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        if "__init__" in vars(cls):
            cls.__init__ = naming_keywords(cls.__init__)  # type: ignore[method-assign]

    # -- what a mechanism does -------------------------------------------------------------------------------

    @abstractmethod
    def draw(self, x: FloatArray, rows: RowKeystream) -> FloatArray:
        """Draw a location for every row of ``x``, in the frame, before `remap` and before it is clamped to the region.

        All randomness comes from ``rows``, by `RowKeystream.uniforms` or by blocks, and that of a row goes into its
        own location only. So the same rows draw the same, in any batches and order, and no location depends on another.
        """

    @property
    @abstractmethod
    def guarantee(self) -> Guarantee:
        """What the published locations promise, and what they do not."""

    def log_density(self, x: FloatArray, t: FloatArray) -> FloatArray:
        """Log density of `draw` at ``t`` given ``x``, both in the frame and broadcast against each other.

        Per unit of the frame; in degrees, per square meter of the sphere.
        """
        raise NotImplementedError(f"{type(self).__name__} has no density")

    def density_given(self, x: FloatArray) -> Callable[[FloatArray], FloatArray]:
        """Return a function that gives `log_density` for all pairs, (n, 2) and (m, 2) to (n, m), to be called often."""
        return lambda t: self.log_density(x[:, None], t[None])

    @property
    def has_density(self) -> bool:
        """Whether `log_density` is implemented; without it, attackers and auditors look at draws alone."""
        return type(self).log_density is not Mechanism.log_density

    def remap(self, t: FloatArray) -> FloatArray:
        """Move what was drawn, in the frame, looking at nothing else, which cannot add to the loss: by default, not."""
        return t

    @property
    def remaps(self) -> bool:
        """Whether `remap` moves anything, so that what is published does not follow `log_density`."""
        return False

    def rescaled(self, factor: float) -> Self:
        """Return a copy with noise ``factor`` times as wide, to test tests; the guarantee may be the original's."""
        raise NotImplementedError(f"{type(self).__name__} cannot be rescaled by {factor:g}")

    @property
    def mean_noise_m(self) -> float | None:
        """Mean distance that the noise moves a location, in meters; None where it depends on the location."""
        return None

    # -- what it learns --------------------------------------------------------------------------------------

    def fit(self, points: object, y: object = None, *, progress: Progress | None = None) -> Self:
        """Do nothing but check the points: only mechanisms with intervals or cells learn from data."""
        del y, progress
        self.area.check(points)
        return self

    def fitted_on(self, points: object) -> Self:
        """Return it as it is if it has learned already, and else a fitted copy: it does not change itself."""
        return self if self.learned is not None else copy.copy(self).fit(points)

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
        """Whether there is nothing to publish by until `fit` has learned something from users."""
        return self.learns is not None and self.learned is None

    @property
    def fit_steps(self) -> int:
        """How often `fit` reports progress."""
        return 1

    def settled(self) -> Self:
        """Return a mechanism with all numbers that it draws by given: another machine then draws the same."""
        return self

    # -- where ------------------------------------------------------------------------------------------------

    @property
    def has_region(self) -> bool:
        """Whether it works in a region, and not on the whole Earth."""
        return self.region is not None or self.given_learned is not None

    @property
    def resolved_region(self) -> Region:
        """The region as a value, also where it was given by name or by file; an error if there is none."""
        if self.given_learned is not None:
            return self.given_learned.region
        if self.region is None:
            raise UsageError(f"{type(self).__name__} needs a region: region='berlin', a box, or a GeoJSON file")
        if not isinstance(self.region, str):
            return self.region
        # A file is read once: it may change while users are moved.
        name, region = self.__dict__.get("_region_as_read", (None, None))
        if region is None or name != self.region:
            region = as_region(self.region)
            self._region_as_read = (self.region, region)
        return region

    @property
    def area(self) -> Region:
        """Where locations may be, and are published: the region, or the whole Earth."""
        return self.resolved_region if self.has_region else WHOLE_EARTH

    def enter(self, points: FloatArray) -> FloatArray:
        """Take degrees to the mechanism's frame."""
        if self.frame == "degrees":
            return points
        region = self.resolved_region
        return region.to_metres(points) if self.frame == "metres" else region.to_square(points)

    def leave(self, xy: FloatArray) -> FloatArray:
        """Take the mechanism's frame back to degrees; what lies beyond a map of the region comes to its edge."""
        if self.frame == "degrees":
            return np.stack([xy[..., 0], wrap_longitude(xy[..., 1])], axis=-1)
        region = self.resolved_region
        return region.from_metres(xy) if self.frame == "metres" else region.from_square(xy)

    # -- publishing -------------------------------------------------------------------------------------------

    @without_context()
    def perturb(
        self,
        points: object,
        rng: Randomness | np.random.Generator | int | None = None,
        *,
        progress: Progress | None = None,
    ) -> FloatArray:
        """Publish a location for every user.

        Parameters
        ----------
        points : array-like of shape (n, 2), or a frame
            True latitudes and longitudes, all in the region, if there is one. The published ones have 6 decimals.
        rng : optional
            A seed or generator to make the result repeatable; by default ``seed``, or else secure randomness. A result
            drawn with ``rng`` is as repeatable as that is: the guarantee speaks of the mechanism without it.
        progress : callable, optional
            Called with the number of users just finished.
        """
        users = self.area.check(points)
        self._prepare()
        key = stream_key(self.seed if rng is None else rng)
        published = np.empty_like(users)

        def publish(part: slice) -> None:
            published[part] = self.published(users[part], NumberedRows(key, part.start, part.stop - part.start))

        for_each_slice(len(users), publish, progress)
        return published

    def perturb_users(
        self, users: IntArray, points: object, rng: Randomness | np.random.Generator | int | None = None
    ) -> tuple[FloatArray, IntArray]:
        """Publish a location for every user and place: return it for every row, and the number of the row's place.

        ``users`` says by any numbers whose rows they are. Mechanisms that know no places take one row of each user.
        """
        if len(np.unique(users)) < len(users):
            raise UsageError(
                f"{type(self).__name__} takes one row per user, and some users have several; keep one of each, or use "
                "PlanarLaplace or HideAmong, which publish one location per user and place"
            )
        return self.perturb(points, self.seed if rng is None else rng), np.arange(len(users))

    def perturb_rows(self, points: object, rows: RowKeystream) -> FloatArray:
        """Publish a location for every user, with randomness that belongs to them: the same rows publish the same."""
        users = self.area.check(points)
        self._prepare()
        return self.published(users, rows)

    def published(self, points: FloatArray, rows: RowKeystream) -> FloatArray:
        """Do the same for locations that have been checked, once everything is prepared."""
        return self.area.publish(self.leave(self.remap(self.draw(self.enter(points), rows))))

    def _prepare(self) -> None:
        """Build what `draw` needs, once, before threads share it."""
        return

    def _own_randomness(self, stream: int) -> Randomness:
        return as_randomness(None) if self.seed is None else seeded_randomness(self.seed, stream)

    def _notes(self) -> tuple[str, ...]:
        return () if self.seed is None else (SEEDED_NOTE,)

    # -- what cards, audits and attackers ask, so that none of them need know one mechanism from another -----------

    @property
    def variant(self) -> str | None:
        """Which of its ways to publish is chosen, where it has several."""
        return None

    def describe(self) -> str:
        """Say which mechanism it is, and where."""
        from nearveil.mechanisms.registry import mechanism_name  # noqa: PLC0415 - it loads all mechanisms

        name = ", release ".join(filter(None, (mechanism_name(self), self.variant)))
        return f"{name} in {self.area}"

    @property
    def learned_params(self) -> dict[str, Any]:
        """What `with_params` takes to draw by what is in use of what `fit` learns; empty if there is nothing."""
        return {} if self.learned is None else {str(self.learns): self.learned}

    @property
    def fit_settings(self) -> tuple[Any, ...]:
        """What decides what `fit` learns, besides the users, the region and the seed."""
        return (repr(self),)

    def distance(self, first: FloatArray, second: FloatArray) -> FloatArray:
        """Return how far apart locations are in the unit of epsilon; 1 if it has none, inf if nothing is promised."""
        if (group := self.groups(first)) is not None:
            return np.where(group == self.groups(second), 1.0, np.inf)
        definition = self.guarantee.definition
        if definition is PrivacyDefinition.ELASTIC:
            raise UsageError(f"{type(self).__name__} must define distance: how many steps apart locations are")
        return great_circle_m(first, second) if definition is PrivacyDefinition.METRIC else np.ones(len(first))

    def groups(self, points: FloatArray) -> IntArray | None:
        """Return the group of each location that publishing discloses, so that the guarantee is about one group."""
        del points
        return None

    def pairs(self) -> list[tuple[FloatArray, FloatArray, str]]:
        """Return locations worth auditing, two by two in degrees, and where they lie, to follow "two locations"."""
        certificate = self.guarantee.certificate
        if certificate is None:
            return []
        first, second = self.leave(np.array([certificate.first, certificate.second]))
        return [(first, second, "that the certificate names")]

    @property
    def finite(self) -> StepChannel | None:
        """The channel between cells that is drawn from, where all locations of a cell are published alike."""
        return None

    @property
    def decay_per_m(self) -> float | None:
        """How fast the log density of `draw` falls per meter, where it depends on nothing but the distance."""
        return None

    @property
    def discs_m(self) -> tuple[FloatArray, FloatArray] | None:
        """Centers and radii, in meters, of the discs that locations are moved into."""
        return None

    # -- parameters, as scikit-learn has them -----------------------------------------------------------------

    def transform(self, points: object) -> Any:
        """Publish a location for every user: an array for an array, and a frame of the same kind for a frame.

        A frame comes back with the locations alone, in the order of its rows, which can give locations away:
        `nearveil.protect` takes care of that, and of other columns.
        """
        published = self.perturb(points)
        if not hasattr(points, "columns"):
            return published
        from nearveil.io.frames import frame_of_points  # noqa: PLC0415 - for frames only

        return frame_of_points(published, points)

    def fit_transform(self, points: object, y: object = None) -> Any:
        """Fit, then publish."""
        return self.fit(points, y).transform(points)

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Return the constructor's parameters by name."""
        del deep
        return {name: getattr(self, name) for name in sorted(inspect.signature(type(self)).parameters)}

    def set_params(self, **params: Any) -> Self:
        """Set constructor parameters by name, with the constructor's checks; what was fitted is forgotten."""
        known = self.get_params()
        for name in params.keys() - known.keys():
            raise UsageError(f"{type(self).__name__} has no parameter {name!r}; it has {', '.join(known)}")
        self.__dict__ = type(self)(**{**known, **params}).__dict__
        return self

    def with_params(self, **params: Any) -> Self:
        """Return an unfitted copy with some parameters changed.

        A seed can always be given: all randomness comes from rows, also where the constructor does not ask for one.
        """
        known = self.get_params()
        given = {"seed": self.seed, **known, **params}
        seed = given["seed"] if "seed" in known else given.pop("seed")
        other = type(self)(**given)
        other.seed = seed
        return other

    def to_spec_params(self) -> dict[str, Any]:
        """Return the parameters that another copy needs in order to have the same law, what was fitted among them."""
        return {**self.settled().get_params(), "region": self.resolved_region if self.has_region else None}

    @classmethod
    def from_spec_params(cls, params: dict[str, Any]) -> Self:
        """Return the copy, of parameters as they come out of a JSON file; the region is a `Region` again."""
        return cls(**params)

    def __sklearn_tags__(self) -> Any:
        # Only scikit-learn calls this, so it is there to be imported.
        from sklearn.utils import Tags, TargetTags, TransformerTags  # noqa: PLC0415

        return Tags("transformer", TargetTags(required=False), TransformerTags(), requires_fit=False)

    def __repr__(self) -> str:
        settings = ", ".join(f"{name}={value!r}" for name, value in self.get_params().items())
        return f"{type(self).__name__}({settings})"


def is_mechanism(value: object) -> TypeIs[Mechanism]:
    """Whether what somebody gave is a mechanism at all."""
    return isinstance(value, Mechanism)


CHUNK_ROWS = 1 << 16


def chunk_slices(rows: int) -> list[slice]:
    """Cut ``rows`` into consecutive slices of `CHUNK_ROWS`; the cut does not depend on the machine."""
    return [slice(start, min(start + CHUNK_ROWS, rows)) for start in range(0, rows, CHUNK_ROWS)]


def for_each_slice(rows: int, work: Callable[[slice], None], progress: Progress | None = None) -> None:
    """Call ``work`` on every chunk, on all cores."""
    slices = chunk_slices(rows)
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        done = pool.map(work, slices) if len(slices) > 1 else map(work, slices)
        for part, _ in zip(slices, done, strict=True):
            if progress:
                progress(part.stop - part.start)


def rounding_delta(epsilon: float, choices: int) -> float:
    """Return what choosing among ``choices`` outcomes by one 53-bit number can add to delta."""
    # Each outcome's probability is off by at most 2⁻⁵³, on both sides of the comparison, one of them times e^epsilon.
    return min(1.0, choices * 2.0**-53 * (1 + math.exp(epsilon)))


def local_guarantee(**stated: Any) -> Guarantee:
    """Return the guarantee of local differential privacy over the whole region, with this epsilon, basis and reason."""
    return Guarantee(
        title="Every published location",
        definition=PrivacyDefinition.LOCAL,
        unit="per user",
        neighbors="any two locations of the region that one published location may stand for, however far apart",
        promise="any two locations of the region look alike up to epsilon, near or far",
        not_covered=FURTHER_RELEASES,
        **stated,
    )
