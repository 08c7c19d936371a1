"""A release on this machine: from one file to another, a batch at a time."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from nearveil.cli._options import Charge
from nearveil.cli._output import progress_bar
from nearveil.cli.populations import open_checked
from nearveil.cli.release_order import Released, ReleaseOrder
from nearveil.errors import UsageError
from nearveil.io.columns import person_columns
from nearveil.io.files import check_people_output, people_writer
from nearveil.io.people import PeopleStream
from nearveil.mechanisms.base import Mechanism
from nearveil.mechanisms.dprs import DPRS
from nearveil.release.fitting import PlacesInStream
from nearveil.release.publishing import publish_stream
from nearveil.release.row_shuffle import RowShuffle


def release_locally(order: ReleaseOrder, mechanism: Mechanism, charge: Charge, metadata: dict[str, Any]) -> Released:
    """Fit if needed, publish everybody, and charge them before the output gets its name.

    Parameters
    ----------
    order : ReleaseOrder
        With the paths of files.
    mechanism : Mechanism
        DPRS without intervals is fitted here.
    charge : Charge
        Whom to charge.
    metadata : dict
        What the published file says of itself.
    """
    source, output = Path(order.source), Path(order.output)
    if output.exists() and source.exists() and output.samefile(source):
        raise UsageError("OUTPUT is the INPUT, whose true places would be lost; write to another file")
    check_people_output(output, force=order.force)
    stream, watch = open_checked(
        source,
        latitude=order.latitude,
        longitude=order.longitude,
        drop=order.drop,
        person=order.person,
        per_row=order.per_row,
        keep_ids=charge.ledger is not None,
    )
    fitted_here = isinstance(mechanism, DPRS) and mechanism.intervals is None
    if isinstance(mechanism, DPRS) and fitted_here:
        _fit(mechanism, stream, clip=order.clip)
    shuffle = None if order.keep_order else RowShuffle(output.resolve().parent, mechanism.seed)
    steps = None if stream.rows is None else stream.rows * (1 if order.keep_order else 2)
    with people_writer(output, force=order.force, metadata=metadata) as writer:
        with progress_bar("moving people", steps) as advance:
            published = publish_stream(
                stream, mechanism, writer, watch, shuffle=shuffle, clip=order.clip, progress=advance
            )
        # Whole on disk, and charged, before it gets its name.
        writer.finish()
        charge.record(mechanism, watch.people_by_id())
    return Released(
        mechanism=mechanism,
        rows=published.rows,
        clipped=published.clipped,
        several_rows=watch.several_rows,
        fitted_here=fitted_here,
        clip=order.clip,
        keeps_order=order.keep_order,
        warnings=(*watch.warnings, *_unseen_persons(order), *published.warnings),
        displacement=published.displacement,
    )


def _unseen_persons(order: ReleaseOrder) -> tuple[str, ...]:
    """Warn of a column that tells people apart, perhaps, and was left out."""
    if order.person is not None or order.per_row:
        return ()
    return tuple(
        f"column {name!r} looks like a person's id and was left out unread; if a person has several rows, their losses "
        "add up: say so with --per-row"
        for name in person_columns(order.drop)
    )


def _fit(mechanism: DPRS, stream: PeopleStream, *, clip: bool) -> None:
    with progress_bar("reading people", stream.rows) as advance:
        answers = PlacesInStream(stream, mechanism.resolved_region, clip=clip, progress=advance)
    with progress_bar("finding intervals", mechanism.fit_plan.steps) as advance:
        mechanism.fit(answers, progress=advance)
