"""Protect a file or a frame: true places in, published places out, and what that promises.

Privacy depends on the order of the steps, and the order is here: open and check, fit if the mechanism learns, publish a
batch at a time, charge everybody, and only then give the output its name. A refusal that comes after a fit is charged
before it is told. Nothing true is written anywhere.
"""

from __future__ import annotations

import copy
import tempfile
import warnings
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from nearveil.errors import UsageError, without_context
from nearveil.html_card import html_card
from nearveil.io.bad_rows import check_bad_rows_file
from nearveil.io.columns import person_columns
from nearveil.io.files import check_people_output, open_people, people_writer
from nearveil.io.input_file import is_standard
from nearveil.io.people import PeopleStream, ReadOptions
from nearveil.mechanisms.base import Mechanism
from nearveil.mechanisms.planar_laplace import PlanarLaplace
from nearveil.mechanisms.registry import is_own, mechanism_name
from nearveil.privacy.guarantee import SEEDED_NOTE, Guarantee, PrivacyDefinition
from nearveil.privacy.ledger import Ledger
from nearveil.region import Region, as_region
from nearveil.release.card import CLIPPED, KEPT_ORDER, card_of, check_mechanism
from nearveil.release.charging import charge_release, check_charged, checked_ids, with_refusals_charged
from nearveil.release.fitting import PlacesInStream
from nearveil.release.publishing import publish_stream
from nearveil.release.row_shuffle import RowShuffle
from nearveil.release.unique_ids import PeopleWatch
from nearveil.types import ProgressBar, no_bar
from nearveil.veil import Veil

if TYPE_CHECKING:
    from nearveil.release.frames import Frame


@dataclass(frozen=True, slots=True, kw_only=True)
class TrueFigures:
    """Figures computed from true places, without noise: for the operator alone, and never to be published.

    Attributes
    ----------
    clipped : int
        How many people were outside the region and moved to its edge first.
    left_out : int
        How many rows could not be used and were left out.
    """

    clipped: int
    left_out: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class ProtectResult:
    """A release that is done: what was written, and what it promises.

    Attributes
    ----------
    rows : int
        How many rows were written.
    mechanism : Mechanism
        As it was used, with its intervals or cells.
    guarantee : Guarantee
        The card of this very release.
    several_rows : bool
        Whether a person may have several rows, so that the card counts rows.
    fitted_here : bool
        Whether the intervals or cells were learned from these people.
    keeps_order : bool
        Whether the rows are in the order of the input, which no guarantee covers.
    leaves_out : bool
        Whether rows that cannot be used are left out, such as those outside the region, which no guarantee covers.
    warnings : tuple of str
        What to think about before publishing; for the operator alone, as some of it is seen in true places.
    true_figures : TrueFigures
        For the operator alone.
    """

    rows: int
    mechanism: Mechanism
    guarantee: Guarantee
    several_rows: bool
    fitted_here: bool
    keeps_order: bool
    leaves_out: bool = False
    warnings: tuple[str, ...] = field(repr=False)
    true_figures: TrueFigures = field(repr=False)

    def to_dict(self) -> dict[str, Any]:
        """Return the release as plain values, to travel with the file: no more of true places is in it."""
        mechanism, guarantee = self.mechanism, self.guarantee
        # What the paper claims is not a guarantee.
        refuted = next((claim for claim in guarantee.also if claim.is_promised and not claim.holds), None)
        learned = self._may_be_fitted_on
        may_lose_more = refuted is not None or learned or self._is_more_lost or not guarantee.is_promised
        has_epsilon = guarantee.is_promised and not guarantee.definition.is_by_distance
        return {
            "rows": self.rows,
            **file_metadata(mechanism),
            "epsilon": (refuted or guarantee).epsilon if has_epsilon else None,
            # The people fitted on lose more. Of others' it is not known.
            "epsilon_holds": False if may_lose_more else True if is_own(mechanism) else None,
            "holds_for_these_people": self._what_holds(),
            "epsilon_per_km": 1000 * guarantee.epsilon if guarantee.definition is PrivacyDefinition.METRIC else None,
            "epsilon_per_step": guarantee.epsilon if guarantee.definition is PrivacyDefinition.ELASTIC else None,
            "delta": (refuted or guarantee).delta,
            "region": str(mechanism.area),
            "order": "kept" if self.keeps_order else "random",
            # A file of intervals or cells does not say whose places are in it.
            "fitted_on_these_people": None if learned and not self.fitted_here else self.fitted_here,
            "guarantee": guarantee.to_dict(),
        }

    def _repr_html_(self) -> str:
        """The release and its card, for a notebook: nothing in it comes from true places."""
        metadata = file_metadata(self.mechanism)
        facts = [
            ("Rows", f"{self.rows:,}, in {'the order of the input' if self.keeps_order else 'random order'}"),
            ("Mechanism", ", release ".join(filter(None, (metadata["mechanism"], metadata["release"])))),
            ("Region", str(self.mechanism.area)),
        ]
        return html_card("Published", facts, more=[self.guarantee._repr_html_()])

    @property
    def _may_be_fitted_on(self) -> bool:
        """Whether intervals or cells were learned from people, these or unknown ones."""
        learned = self.mechanism.learned
        return learned is not None and not learned.is_free

    @property
    def _is_more_lost(self) -> bool:
        """Whether more is lost than a statement about one place of a person can say."""
        # A seed undoes the noise, and rows of one person add up. The order of rows, and who is missing, is not covered.
        seeded = bool(file_metadata(self.mechanism)["seeded"])
        return seeded or self.several_rows or self.keeps_order or self.leaves_out

    def _what_holds(self) -> dict[str, Any] | None:
        """The statement that is true of the people in this very file, in numbers; none where no number says it all.

        What comes from a file may have been fitted on the same people, so that the fit counts.
        """
        if self._is_more_lost or not self.guarantee.is_promised or not is_own(self.mechanism):
            return None
        statement = self.guarantee.also[1] if self._may_be_fitted_on else self.guarantee
        fields = ("definition", "epsilon", "offset", "unit", "delta")
        return {name: value for name, value in statement.to_dict().items() if name in fields}


@without_context()
def protect_file(
    source: str | Path,
    output: str | Path,
    mechanism: Mechanism | None = None,
    *,
    region: Region | str | None = None,
    read: ReadOptions | None = None,
    keep_order: bool = False,
    ledger: Ledger | None = None,
    force: bool = False,
    progress: ProgressBar | None = None,
) -> ProtectResult:
    r"""Publish another place for everybody in a file.

    Parameters
    ----------
    source, output : path
        CSV, TSV, GeoJSON or (Geo)Parquet, by extension. The output is written whole or not at all. ``-`` is standard
        input, which is held in memory, and standard output, which gets the format of the source.
    mechanism : Mechanism, optional
        How people are moved; planar Laplace noise of 500 m if not given. DPRS without intervals
        and HideAmong without cells are fitted on these people, at the cost that the card states.
    region : Region or str, optional
        The public region, in place of the mechanism's.
    read : ReadOptions, optional
        Which columns are what, and who counts as one person.
    keep_order : bool
        Keep the order of the rows, which can give places away; otherwise it is random and secret.
    ledger : Ledger, optional
        Everybody is charged in it before the output gets its name; ``read.person`` says who is who. What was fitted
        before costs the people that it was fitted on as much as its guarantee says, which is not charged here.
    force : bool
        Replace the output if it exists.
    progress : callable, optional
        Gives a progress bar for each step.

    Examples
    --------
    >>> import tempfile
    >>> folder = Path(tempfile.mkdtemp())
    >>> _ = (folder / "people.csv").write_text("id,latitude,longitude\nann,37.77,-122.42\nben,37.75,-122.45\n")
    >>> result = protect_file(folder / "people.csv", folder / "published.csv", PlanarLaplace(noise_m=500))
    >>> result.rows, result.guarantee.definition.value
    (2, 'metric')
    """
    source, output, mechanism = Path(source), Path(output), _in_region(mechanism, region)
    read, bar = read or ReadOptions(), progress or no_bar
    if ledger is not None:
        check_charged(read, mechanism.seed)
    if read.skip_bad is not None:
        check_bad_rows_file(read.skip_bad, source, output)
    if output.exists() and source.exists() and output.samefile(source):
        raise UsageError("OUTPUT is the INPUT, whose true places would be lost; write to another file")
    check_people_output(output, force=force)
    stream = open_people(source, read, region=mechanism.area)
    fitted_here = mechanism.is_to_be_fitted
    # The caller's own does not change.
    mechanism = copy.copy(mechanism) if fitted_here else mechanism
    ids = _fit(mechanism, stream, read, ledger, bar) if fitted_here else None
    watch = PeopleWatch(stream.carried, read.person, per_row=read.per_row)
    folder = Path(tempfile.gettempdir()) if is_standard(output) else output.resolve().parent
    shuffle = None if keep_order else RowShuffle(folder, mechanism.seed)
    steps = None if stream.rows is None else stream.rows * (1 if keep_order else 2)
    with people_writer(output, force=force, metadata=file_metadata(mechanism), extension=stream.extension) as writer:
        with bar("moving people", steps) as advance:
            published = publish_stream(
                stream, mechanism, writer, watch, shuffle=shuffle, clip=read.clip, progress=advance
            )
        # Whole on disk, and charged, before it gets its name.
        writer.finish()
        if ledger is not None:
            ids = ids or checked_ids(watch.people_by_id(), str(read.person))
            charge_release(ledger, mechanism, ids, fitted_here=fitted_here)
    with bar("computing the guarantee", None):
        card = card_of(
            mechanism,
            several_rows=watch.several_rows,
            fitted_here=fitted_here,
            clip=read.clip,
            skip_bad=read.skip_bad is not None,
            keeps_order=keep_order,
        )
    return ProtectResult(
        rows=published.rows,
        mechanism=mechanism,
        guarantee=card,
        several_rows=watch.several_rows,
        fitted_here=fitted_here,
        keeps_order=keep_order,
        leaves_out=read.skip_bad is not None,
        warnings=(*stream.warnings, *watch.warnings, *_unseen_persons(read), *published.warnings),
        true_figures=TrueFigures(clipped=published.clipped, left_out=stream.skipped),
    )


@without_context()
def protect_frame(
    frame: Frame,
    mechanism: Mechanism | Veil | None = None,
    *,
    user: str | None = None,
    region: Region | str | None = None,
    read: ReadOptions | None = None,
    keep_order: bool = False,
) -> Frame:
    """Publish another place for everybody in a frame, and return a frame of the same kind.

    Rows come back in a secret random order, as files do, because the order of a frame can tell who is where. Other
    columns are carried along with their types, and refused as in files where they hold a second exact location; Arrow
    dictionaries, and categories of Polars, come back as their values. What is suspicious about columns, and what the
    guarantee does not cover, is said by Python warnings. DPRS and HideAmong must be fitted, or have intervals or cells:
    ``mechanism.guarantee`` is the card.

    Parameters
    ----------
    frame : pyarrow.Table, pandas, Polars or GeoPandas frame
        True places. The points of a GeoDataFrame count in whatever CRS they are, and come back in the same, as do the
        columns of other frames with ``ReadOptions(crs="EPSG:25833")``.
    mechanism, region, read
        As of `protect_file`. A `Veil` takes frames with several rows per user, and needs no region: rows of a user in
        the same cell get the same location, and ``Veil.guarantee`` says what holds. Which rows are whose stays visible.
    user : str, optional
        For a `Veil`: the column of user ids, which hold text, or whole numbers that count as their digits.
    keep_order : bool
        Keep the order of the rows and a pandas index, which can give places away. Otherwise the order is random and
        secret, and the index is numbered anew: make it a column to carry it. A column ``__index_level_0__`` of Arrow,
        which is such an index, is then left out.

    Examples
    --------
    >>> import pyarrow as pa
    >>> people = pa.table({"id": ["ann", "ben"], "latitude": [37.77, 37.75], "longitude": [-122.42, -122.45]})
    >>> protect_frame(people, PlanarLaplace(noise_m=500)).column_names
    ['id', 'latitude', 'longitude']
    """
    from nearveil.release.frames import PeopleInFrame  # noqa: PLC0415 - frames' libraries are slow to load

    if isinstance(mechanism, Veil):
        return _veiled(frame, mechanism, user, region, read or ReadOptions(), keep_order=keep_order)
    if user is not None:
        raise UsageError("user= is for a Veil; with a mechanism, ReadOptions(person=) names who counts as one person")
    chosen, read = _in_region(mechanism, region), read or ReadOptions()
    if chosen.is_to_be_fitted:
        name = type(chosen).__name__
        raise UsageError(
            f"{name} is not fitted, and nobody could read what it learned, and what that cost; fit it first, as in "
            f"protect_frame(frame, {name}(...).fit(frame))"
        )
    kind = PeopleInFrame(frame, read, keep_order=keep_order)
    stream, watch = kind.stream, PeopleWatch(kind.stream.carried, read.person, per_row=read.per_row)
    shuffle = None if keep_order else RowShuffle(None, chosen.seed)
    published = publish_stream(stream, chosen, kind.writer, watch, shuffle=shuffle, clip=read.clip)
    card = card_of(chosen, several_rows=watch.several_rows, fitted_here=False, clip=read.clip, keeps_order=keep_order)
    conditions = [note for note in card.notes if note in (SEEDED_NOTE, KEPT_ORDER, CLIPPED)]
    if any(statement.is_promised and not statement.holds for statement in (card, *card.also)):
        conditions.append("The guarantee that the paper claims for this does not hold; see mechanism.guarantee.")
    for warning in (
        *conditions,
        *kind.warnings,
        *stream.warnings,
        *watch.warnings,
        *_unseen_persons(read),
        *published.warnings,
    ):
        warnings.warn(warning, stacklevel=2)
    same_kind: Frame = kind.published()
    return same_kind


def _veiled(
    frame: Frame, veil: Veil, user: str | None, region: object, read: ReadOptions, *, keep_order: bool
) -> Frame:
    from nearveil.release.veiled import veiled_frame  # noqa: PLC0415 - frames' libraries are slow to load

    if region is not None:
        raise UsageError("Veil works everywhere and takes no region; leave out region=")
    published, notes = veiled_frame(frame, veil, user, read, keep_order=keep_order)
    for warning in (*([KEPT_ORDER] if keep_order else []), *notes):
        # Through protect_frame and what it is wrapped in, to the caller.
        warnings.warn(warning, stacklevel=4)
    return published


def file_metadata(mechanism: Mechanism) -> dict[str, Any]:
    """Return the metadata of a published file; the guarantee goes to the operator."""
    # What is still to be fitted is seeded if the mechanism is.
    learned = mechanism.learned
    seeded = mechanism.seed is not None or (learned is not None and learned.seeded)
    return {"mechanism": mechanism_name(mechanism), "release": mechanism.variant, "seeded": seeded}


def _in_region(mechanism: Mechanism | None, region: Region | str | None) -> Mechanism:
    # Read once, if it is a file.
    box = None if region is None else as_region(region)
    if mechanism is None:
        return PlanarLaplace(region=box)
    check_mechanism(mechanism)
    if box is None or (mechanism.has_region and box == mechanism.area):
        return mechanism
    if mechanism.learned is not None:
        raise UsageError(
            f"the {mechanism.learns} are of the region {mechanism.area}; leave region out, or fit in the other region"
        )
    return mechanism.with_params(region=box)


def _fit(
    mechanism: Mechanism, stream: PeopleStream, read: ReadOptions, ledger: Ledger | None, bar: ProgressBar
) -> list[object] | None:
    """Fit the mechanism on everybody; return their ids if there is a ledger to charge them in."""
    watch, ids = None, None
    if ledger is not None:
        watch = PeopleWatch(stream.carried, read.person, per_row=read.per_row)
    with bar("reading people", stream.rows) as advance:
        answers = PlacesInStream(stream, mechanism.area, watch, clip=read.clip, progress=advance)
    if watch is not None:
        watch.finish()
        ids = checked_ids(watch.people_by_id(), str(read.person))

    def fit() -> None:
        with bar(f"finding {mechanism.learns}", mechanism.fit_steps) as advance:
            mechanism.fit(answers, progress=advance)
        # What cannot be drawn by is refused here, and not later.
        mechanism._prepare()

    with_refusals_charged(fit, ledger, mechanism, ids or ())
    return ids


def _unseen_persons(read: ReadOptions) -> tuple[str, ...]:
    """Warn of a column that tells people apart, perhaps, and was left out."""
    if read.person is not None or read.per_row:
        return ()
    return tuple(
        f"column {name!r} looks like a person's id and was left out unread; if a person has several rows, their losses "
        "add up: say so with per_row=True"
        for name in person_columns(read.drop)
    )
