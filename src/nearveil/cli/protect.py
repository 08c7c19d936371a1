"""``nearveil protect``: read true locations, write noisy ones, and print the guarantee."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

from nearveil.cli._options import (
    PEOPLE_FILE,
    BudgetOption,
    CardName,
    CardOption,
    DropOption,
    ForceOption,
    JsonOption,
    KeepOrderOption,
    LedgerOption,
    PerRowOption,
    PersonOption,
    RegionOption,
    ScalingOption,
    SeedOption,
    TrueFiguresOption,
    chosen_region,
    open_ledger,
    takes_reading,
)
from nearveil.cli._output import note, progress_bar, say, say_json, warn, write_private_json
from nearveil.cli._protection import (
    ProtectionOptions,
    build_mechanism,
    is_same_file,
    refuse_input_as_public,
    takes_protection,
)
from nearveil.errors import UsageError
from nearveil.io.atomic import check_output
from nearveil.io.input_file import is_standard
from nearveil.io.people import ReadOptions
from nearveil.release.protect import ProtectResult, file_metadata, protect_file

# The mean of fewer rows would reveal too much of each row.
_FEWEST_FOR_A_MEAN = 1000


@takes_reading
@takes_protection
def protect(
    source: Annotated[str, typer.Argument(metavar="INPUT", help=PEOPLE_FILE)],
    output: Annotated[
        str,
        typer.Argument(metavar="OUTPUT", help="File to write; its extension gives the format. - for standard output."),
    ],
    *,
    region: RegionOption = None,
    protection: ProtectionOptions,
    person: PersonOption = None,
    per_row: PerRowOption = False,
    ledger: LedgerOption = None,
    budget: BudgetOption = None,
    drop: DropOption = None,
    reading: ReadOptions,
    keep_order: KeepOrderOption = False,
    true_figures: TrueFiguresOption = None,
    scaling: ScalingOption = None,
    seed: SeedOption = None,
    card: CardOption = CardName.SHORT,
    json: JsonOption = False,
    force: ForceOption = False,
) -> None:
    """Write a copy of INPUT with noisy locations, and print what is guaranteed."""
    started = time.perf_counter()
    if json and is_standard(output):
        raise UsageError("--json and OUTPUT - both go to standard output; name a file for OUTPUT")
    other_inputs = {"the --ledger": ledger, **protection.input_files, "the --region file": region}
    _check_distinct("OUTPUT", output, other_inputs)
    refuse_input_as_public(source, density=protection.density, published=protection.published)
    if reading.skip_bad is not None:
        _check_distinct("--skip-bad", reading.skip_bad, {"the --true-figures": true_figures, **other_inputs})
    if true_figures is not None:
        _check_distinct("--true-figures", true_figures, {"the INPUT": source, "the OUTPUT": output, **other_inputs})
        check_output(true_figures, force=force)
    read = replace(reading, drop=tuple(drop or ()), person=person, per_row=per_row)
    result = protect_file(
        source,
        output,
        build_mechanism(protection, chosen_region(region, scaling, protection.learned), seed),
        read=read,
        keep_order=keep_order,
        ledger=open_ledger(ledger, budget, read, seed),
        force=force,
        progress=progress_bar,
    )
    for warning in result.warnings:
        warn(warning)
    seconds = time.perf_counter() - started
    if true_figures is not None:
        figures = {**result.true_figures.to_dict(), "rows": result.rows, "seconds": round(seconds, 3)}
        write_private_json(true_figures, figures, force=force)
    if json:
        say_json(result.to_dict())
    elif is_standard(output):
        # The file itself is there.
        note(_as_text(result, "standard output", seconds, full_card=card is CardName.FULL))
    else:
        say(_as_text(result, output, seconds, full_card=card is CardName.FULL))


_HOW_MANY_ARE_FOUND = (
    "Not said here: how many of these people a good attacker would still find or name. To measure it:\n"
    "nearveil attack --input INPUT --attack gi-lia --runs 1 --instances 5, with the same region and\n"
    "protection options (see 'Bayes attacker' in its output, which is computed from true locations)."
)


def _as_text(result: ProtectResult, output: str, seconds: float, *, full_card: bool) -> str:
    """Return the text of a release: the number of rows, the file, and the card."""
    metadata = file_metadata(result.mechanism)
    how = metadata["mechanism"] + (f", release {metadata['release']}" if metadata["release"] else "")
    rows = f"{result.rows:,} row" + ("" if result.rows == 1 else "s")
    lines = [f"{rows} written to {output} in {seconds:.1f} s ({how})."]
    moved = result.true_figures.displacement
    if moved and result.rows >= _FEWEST_FOR_A_MEAN:
        mean_m = float(f"{moved.mean_m:.2g}")
        lines.append(f"Moved by about {mean_m:,.0f} m on average (computed from true locations; do not publish).")
    return "\n".join([*lines, result.guarantee.card(full=full_card), _HOW_MANY_ARE_FOUND])


def _check_distinct(what: str, path: str | Path, others: Mapping[str, str | Path | None]) -> None:
    """Refuse an output that is also another file of this command, which ``--force`` would overwrite."""
    for name, other in others.items():
        if is_same_file(path, other):
            raise UsageError(f"{what} is the same file as {name}; name another file")
