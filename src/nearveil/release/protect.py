"""Protect a file or a frame: true locations in, published locations out, and what that guarantees.

Privacy depends on the order of the steps, and the order is here: check, fit if the mechanism learns, publish, charge
everyone, and only then give the result away. A fit is charged before anything is told of it. Nothing true is written
anywhere, and no column is published that was not named.
"""

from __future__ import annotations

import copy
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from nearveil.errors import DataError, UsageError, without_context
from nearveil.io.frames import columns_of_frame, is_frame, location_in_frame, published_frame
from nearveil.mechanisms.base import Mechanism, is_mechanism
from nearveil.mechanisms.planar_laplace import PlanarLaplace
from nearveil.mechanisms.registry import is_own, mechanism_name
from nearveil.privacy.guarantee import Counted, Guarantee
from nearveil.randomness import ORDER_STREAM, secure_generator, seeded_randomness
from nearveil.region import Region, as_region
from nearveil.release.guarantee import check_mechanism, places_guarantee, release_guarantee
from nearveil.release.rows import (
    InputRows,
    RowCheck,
    check_charged,
    columns_to_publish,
    read_options,
    rows_of_frame,
    rows_of_source,
)
from nearveil.types import BoolArray, FloatArray, IntArray, ProgressBar, no_bar

if TYPE_CHECKING:
    from nearveil.io.location import ReadOptions
    from nearveil.privacy.ledger import Ledger


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Protected:
    """A release that is done: what was published, and what it guarantees.

    Attributes
    ----------
    frame : frame, optional
        The published rows, where a frame was protected.
    rows : int
        How many rows were published.
    guarantee : Guarantee
        Of this very release.
    mechanism : Mechanism
        As it was used, with its intervals or cells.
    counted : Counted
        What the guarantee counts.
    places, most_places : int
        How many places were published, in all and of the user with the most; the output shows both.
    published, left_out : tuple of str
        The columns of the input beside the location, as published and not.
    keeps_order : bool
        Whether rows are in the order of the input, which no guarantee covers.
    fitted_here : bool
        Whether the intervals or cells were learned from these users.
    skipped : dict
        Numbers of the rows that could not be used, from 1, by reason: for the operator alone.
    """

    frame: Any = None
    rows: int
    guarantee: Guarantee
    mechanism: Mechanism
    counted: Counted
    places: int
    most_places: int
    published: tuple[str, ...]
    left_out: tuple[str, ...]
    keeps_order: bool
    fitted_here: bool
    skipped: dict[str, IntArray]

    @property
    def summary(self) -> str:
        """The result in one sentence."""
        rows = "1 location" if self.rows == 1 else f"{self.rows:,} locations"
        # The mean of the noise, not of these locations: nothing here is computed from them.
        noise_m = self.mechanism.mean_noise_m
        moved = "" if noise_m is None else f", moved {noise_m:,.6g} m on average"
        of_places = f", one for each of {self.places:,} places of users" if self.counted is Counted.PLACES else ""
        return f"{rows} published{moved}{of_places}"

    @property
    def warnings(self) -> tuple[str, ...]:
        """What to think about before giving the result away."""
        found = []
        if _description(self.mechanism)["seeded"]:
            found.append("something was drawn from a seed, which protects nobody; leave the seed out to publish")
        if self.keeps_order:
            found.append("the order of rows was kept, which can tell locations; leave keep_order=True out to shuffle")
        if not self.left_out and len(self.published) > 1:
            found.append("every column was published as it was; no guarantee covers what other columns tell")
        if any(claim.is_promised and not claim.holds for claim in (self.guarantee, *self.guarantee.also)):
            found.append("the guarantee that the paper claims for this does not hold")
        return tuple(found)

    def to_dict(self) -> dict[str, Any]:
        """Return the release as plain values, to travel with it: nothing in it comes from true locations alone."""
        return {
            "summary": self.summary,
            "rows": self.rows,
            "counted": str(self.counted),
            "places": self.places or None,
            "most_places": self.most_places if self.places else None,
            **_description(self.mechanism),
            "region": str(self.mechanism.area),
            "order": "kept" if self.keeps_order else "random",
            "columns": list(self.published),
            "fitted_on_these_users": self.fitted_here,
            "guarantee": self.guarantee.to_dict(),
        }

    def __repr__(self) -> str:
        return f"Protected({self.summary}; {self.guarantee.number})"

    def _repr_html_(self) -> str:
        """The release and its guarantee, for a notebook."""
        from nearveil.html_card import html_card  # noqa: PLC0415 - for notebooks only

        facts = [
            ("Columns", ", ".join(self.published) or "none but the location"),
            ("Region", str(self.mechanism.area)),
        ]
        return html_card(self.summary, facts, more=[self.guarantee._repr_html_()])


@without_context()
def protect(
    source: Any,
    output: str | Path | Mechanism | None = None,
    mechanism: Mechanism | None = None,
    *,
    user: str | None = None,
    keep: Sequence[str] = (),
    keep_all: bool = False,
    region: Region | str | None = None,
    read: ReadOptions | None = None,
    keep_order: bool = False,
    skip_bad: bool = False,
    ledger: Ledger | None = None,
    force: bool = False,
    progress: ProgressBar | None = None,
    **reading: Any,
) -> Protected:
    """Publish noisy locations for the users of a file or a frame, in a secret random order, and nothing else.

    Parameters
    ----------
    source : path or frame
        True locations: CSV, JSON lines, GeoJSON, (Geo)Parquet or what GDAL reads; or a frame of pandas, Polars,
        GeoPandas or Arrow. ``-`` is standard input.
    output : path, optional
        The file to write, whole or not at all; its extension gives the format. A frame has none: its second argument
        is the mechanism.
    mechanism : Mechanism, optional
        Planar Laplace noise of 500 m if not given. DPRS without intervals and HideAmong without cells are fitted on
        these users, at a cost that the guarantee states.
    user : str, optional
        The column that tells users apart, which is published. Users may have several rows: each gets one location per
        place. Without it the guarantee counts rows.
    keep : sequence of str
        Further columns to publish; ``keep_all`` publishes every column.
    region : Region or str, optional
        The public region of mechanisms that need one. Locations outside are refused.
    read : ReadOptions, optional
        Which columns hold the locations, where that is not obvious; or its fields, such as ``latitude=`` and ``crs=``.
    keep_order : bool
        Keep the order of rows, which can tell locations.
    skip_bad : bool
        Leave rows out that cannot be used, rather than refuse them all.
    ledger : Ledger, optional
        Every user is charged in it before anything is published.
    force : bool
        Replace the output if it exists.
    progress : callable, optional
        Gives a progress bar for each step.

    Examples
    --------
    >>> import pandas as pd
    >>> users = pd.DataFrame({"id": ["ann", "ben"], "latitude": [52.52, -33.86], "longitude": [13.40, 151.21]})
    >>> safe = protect(users, PlanarLaplace(500), user="id")
    >>> list(safe.frame.columns), safe.guarantee.epsilon
    (['id', 'latitude', 'longitude'], 0.004)
    """
    if is_mechanism(output):
        output, mechanism = None, output
    read = read_options(read, reading)
    chosen = _in_region(check_mechanism(PlanarLaplace() if mechanism is None else mechanism), region)
    check_charged(ledger, user, chosen.seed)
    release = _Release(
        mechanism=chosen, user=user, keep=keep, keep_all=keep_all, read=read, keep_order=keep_order, ledger=ledger,
        skip_bad=skip_bad, bar=progress or no_bar,
    )  # fmt: skip
    if is_frame(source):
        if output is not None:
            raise UsageError(
                "beside a frame, the second argument is a mechanism such as PlanarLaplace(500); a frame has no output"
            )
        return release.of_frame(source)
    if not isinstance(source, str | Path):
        raise UsageError("protect takes the path of a file, or a frame of pandas, Polars, GeoPandas or Arrow")
    if not isinstance(output, str | Path):
        raise UsageError("name the file to write, as in protect('users.csv', 'published.csv')")
    return release.of_file(Path(source), Path(output), force=force)


@dataclass(kw_only=True)
class _Release:
    """One release, step by step."""

    mechanism: Mechanism
    user: str | None
    keep: Sequence[str]
    keep_all: bool
    read: ReadOptions | None
    keep_order: bool
    ledger: Ledger | None
    skip_bad: bool
    bar: ProgressBar
    check: RowCheck = field(init=False)
    fitted_here: bool = False
    counted: Counted = Counted.ROWS
    places: int = 0
    most_places: int = 1
    names: Sequence[str] = field(default=(), repr=False)
    charges: Sequence[int] = field(default=(), repr=False)

    def of_frame(self, frame: Any) -> Protected:
        """Publish a frame."""
        location, names = location_in_frame(frame, self.read), columns_of_frame(frame, self.read)
        columns = columns_to_publish(names, location, self.user, self.keep, keep_all=self.keep_all)
        self.check = RowCheck(self.mechanism.area, location, skip_bad=self.skip_bad)
        rows = rows_of_frame(frame, self.user, self.read)
        is_usable = self.check(rows.points, users=rows.users)
        from nearveil.release.second_location import refuse_second_locations  # noqa: PLC0415 - for frames only

        refuse_second_locations(frame, columns[0], self.read)
        published = self._publish_in_memory(rows, is_usable)
        order = np.flatnonzero(is_usable)
        if not self.keep_order:
            order = order[self._order_generator().permutation(len(order))]
        made = published_frame(frame, published, columns[0], order, self.read)
        self._charge()
        return self._result(len(order), columns, made)

    def of_file(self, path: Path, output: Path, *, force: bool) -> Protected:
        """Publish a file: charged when it is whole on disk, and only then given its name."""
        from nearveil.io.atomic import check_output  # noqa: PLC0415 - of files
        from nearveil.io.readers import open_source  # noqa: PLC0415 - needs an extra
        from nearveil.io.writers import open_writer  # noqa: PLC0415
        from nearveil.release.batches import publish_batches  # noqa: PLC0415

        if path.exists() and output.exists() and output.samefile(path):
            raise UsageError("the output is the input, whose locations would be lost; write to another file")
        if str(output) != "-":
            check_output(output, force=force)
        source = open_source(path, self.read)
        self.check = RowCheck(self.mechanism.area, source.location, skip_bad=self.skip_bad)
        columns = columns_to_publish(source.columns, source.location, self.user, self.keep, keep_all=self.keep_all)
        metadata = _description(self.mechanism)
        with open_writer(output, source, columns[0], force=force, metadata=metadata) as writer:
            published = None
            if self.user is not None or self.mechanism.is_to_be_fitted:
                rows = rows_of_source(source, self.user, self.bar)
                published = self._publish_in_memory(rows, self.check(rows.points, users=rows.users))
            count = publish_batches(self, source, columns[0], published, writer, output)
            writer.finish()
            self._charge()
        return self._result(count, columns)

    def _publish_in_memory(self, rows: InputRows, is_usable: BoolArray) -> FloatArray:
        """Publish a location for every row that can be used; others get none."""
        usable = rows.only(is_usable)
        if not len(usable.points):
            raise DataError("there is no row that can be published; give at least one location")
        if self.mechanism.is_to_be_fitted:
            from nearveil.release.fit import fit_on  # noqa: PLC0415 - few mechanisms learn

            self.mechanism, _ = fit_on(self.mechanism, usable, self.ledger, self.bar)
            self.fitted_here = True
        published = np.full(rows.points.shape, np.nan)
        with self.bar("moving locations", len(usable.points)) as advance:
            if usable.users is None:
                published[is_usable] = self.mechanism.perturb(usable.points, progress=advance)
                return published
            # Nobody has proved what others' classes do with several rows of a user.
            publish = type(self.mechanism).perturb_users if is_own(self.mechanism) else Mechanism.perturb_users
            published[is_usable], place = publish(self.mechanism, usable.users, usable.points)
        self._count_places(usable.users, place, usable.names)
        return published

    def _count_places(self, users: IntArray, place: IntArray, names: Sequence[str]) -> None:
        _, first = np.unique(place, return_index=True)
        of_user = np.bincount(users[first], minlength=len(names))
        self.places, self.most_places = len(first), int(of_user.max())
        self.counted = Counted.PLACES if self._counts_places else Counted.USERS
        charged = np.flatnonzero(of_user)
        self.names, self.charges = [names[user] for user in charged.tolist()], of_user[charged].tolist()

    @property
    def _counts_places(self) -> bool:
        return self.mechanism.places is not None and is_own(self.mechanism)

    def _charge(self) -> None:
        if self.ledger is None:
            return
        if self.counted is Counted.PLACES:
            self.ledger.charge([places_guarantee(self.mechanism, self.most_places)], self.names, self.charges)
        else:
            self.ledger.charge([self.mechanism.guarantee], self.names)

    def _order_generator(self) -> np.random.Generator:
        seed = self.mechanism.seed
        return secure_generator() if seed is None else seeded_randomness(seed, ORDER_STREAM).generator

    def _result(self, rows: int, columns: tuple[tuple[str, ...], tuple[str, ...]], frame: Any = None) -> Protected:
        with self.bar("computing the guarantee", None):
            guarantee = release_guarantee(
                self.mechanism, self.counted, most_places=self.most_places, fitted_here=self.fitted_here,
                skips_rows=self.skip_bad, keeps_order=self.keep_order,
            )  # fmt: skip
        return Protected(
            frame=frame, rows=rows, guarantee=guarantee, mechanism=self.mechanism, counted=self.counted,
            places=self.places, most_places=self.most_places, published=columns[0], left_out=columns[1],
            keeps_order=self.keep_order, fitted_here=self.fitted_here, skipped=self.check.skipped,
        )  # fmt: skip


def _description(mechanism: Mechanism) -> dict[str, Any]:
    """Return what a published file says of itself; what is still to be fitted is seeded if the mechanism is."""
    learned = mechanism.learned
    seeded = mechanism.seed is not None or (learned is not None and learned.seeded)
    return {"mechanism": mechanism_name(mechanism), "variant": mechanism.variant, "seeded": seeded}


def _in_region(mechanism: Mechanism, region: Region | str | None) -> Mechanism:
    # Read once, if it is a file.
    box = None if region is None else as_region(region)
    if box is None or (mechanism.has_region and box == mechanism.area):
        return copy.copy(mechanism)
    if mechanism.learned is not None:
        raise UsageError(
            f"the {mechanism.learns} are of the region {mechanism.area}; leave region= out, or fit in the other region"
        )
    return mechanism.with_params(region=box)
