"""``nearveil protect``: read true locations, write noisy ones, and print the guarantee."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import click

from nearveil.cli._command import command, option
from nearveil.cli._mechanism import MechanismChoice, mechanism_options
from nearveil.cli._options import (
    PEOPLE_FILE,
    budget_option,
    force_option,
    is_same_file,
    json_option,
    ledger_option,
    open_ledger,
    optional_region,
    per_row_option,
    person_option,
    region_option,
    release_reading_options,
    seed_option,
)
from nearveil.cli._output import FULL_CARD, note, progress_bar, say, say_json, warn
from nearveil.errors import UsageError
from nearveil.io.input_file import is_standard
from nearveil.io.people import ReadOptions
from nearveil.release.protect import ProtectResult, protect_file


@command()
@click.argument("source", metavar="INPUT", help=PEOPLE_FILE)
@click.argument(
    "output", metavar="OUTPUT", help="File to write; its extension gives the format. - for standard output."
)
@region_option
@mechanism_options
@release_reading_options
@person_option
@per_row_option
@option("--drop", multiple=True, metavar="COLUMN", help="Leave out this column; may be repeated.")
@ledger_option
@budget_option
@option(
    "--keep-order",
    is_flag=True,
    help="Keep the order of the rows, which can reveal locations.",
)
@seed_option
@json_option
@force_option
def protect(
    source: str,
    output: str,
    *,
    region: str | None,
    mechanism: MechanismChoice,
    reading: ReadOptions,
    person: str | None,
    per_row: bool,
    drop: tuple[str, ...],
    ledger: Path | None,
    budget: tuple[str, ...],
    keep_order: bool,
    seed: int | None,
    json: bool,
    force: bool,
) -> None:
    """Write a copy of INPUT with noisy locations, and print what is guaranteed."""
    if json and is_standard(output):
        raise UsageError("--json and OUTPUT - both go to standard output; name a file for OUTPUT")
    other_inputs = {"the --ledger": ledger, **mechanism.input_files, "the --region file": region}
    _check_distinct("OUTPUT", output, other_inputs)
    if reading.skip_bad is not None:
        _check_distinct("--skip-bad", reading.skip_bad, other_inputs)
    read = replace(reading, drop=drop, person=person, per_row=per_row)
    result = protect_file(
        source,
        output,
        mechanism.build(optional_region(region, mechanism.learned), seed),
        read=read,
        keep_order=keep_order,
        ledger=open_ledger(ledger, budget, read, seed),
        force=force,
        progress=progress_bar,
    )
    for warning in result.warnings:
        warn(warning)
    if json:
        say_json(result.to_dict())
        return
    if is_standard(output):
        # The file itself is there.
        note(_as_text(result, "on standard output"))
    else:
        say(_as_text(result, f"in {output}"))


_HOW_MANY_ARE_FOUND = (
    "Not said here: how many of these people a good attacker would still find or name. To measure it:\n"
    "nearveil attack --input INPUT --attack gi-lia --runs 1 --instances 5, with the same region and\n"
    "protection, where all but --mechanism and --noise go with --set (see 'Bayes attacker' in its output,\n"
    "which is computed from true locations)."
)


def _as_text(result: ProtectResult, where: str) -> str:
    """Return the result in one sentence, and the guarantee."""
    locations = "1 location" if result.rows == 1 else f"{result.rows:,} locations"
    # The mean of the noise, not of these locations: nothing here is computed from them.
    noise_m = result.mechanism.mean_noise_m
    moved = "" if noise_m is None else f", moved {noise_m:,.6g} m on average"
    first = f"{locations} published {where}{moved}."
    return "\n".join([first, result.guarantee.card(full_is_at=FULL_CARD), _HOW_MANY_ARE_FOUND])


def _check_distinct(what: str, path: str | Path, others: Mapping[str, str | Path | None]) -> None:
    """Refuse an output that is also another file of this command, which ``--force`` would overwrite."""
    for name, other in others.items():
        if is_same_file(path, other):
            raise UsageError(f"{what} is the same file as {name}; name another file")
