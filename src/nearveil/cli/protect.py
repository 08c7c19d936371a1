"""``nearveil protect``: read true locations, write noisy ones, and print the guarantee."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from nearveil.cli._command import command, option
from nearveil.cli._mechanism import MechanismChoice, mechanism_options
from nearveil.cli._options import (
    PEOPLE_FILE,
    USERS,
    budget_option,
    check_output_is_none_of,
    force_option,
    json_option,
    ledger_option,
    open_ledger,
    reading_options,
    region_option,
    seed_option,
    skip_bad_option,
    user_option,
)
from nearveil.cli._output import COUNTS_ROWS, FULL_CARD, note, note_skipped, progress_bar, say, say_json, warn
from nearveil.errors import UsageError
from nearveil.privacy.guarantee import round_up

if TYPE_CHECKING:
    from nearveil.io.location import ReadOptions
    from nearveil.privacy.ledger import Ledger
    from nearveil.release.protect import Protected


@command()
@click.argument("source", metavar="INPUT", help=PEOPLE_FILE)
@click.argument(
    "output", metavar="OUTPUT", help="File to write, in the format of its extension; - for standard output."
)
@mechanism_options
@user_option
@option("--keep", multiple=True, metavar="COLUMN", help="Also publish this column; may be repeated.", heading=USERS)
@option("--keep-all", is_flag=True, help="Publish all columns.", heading=USERS)
@ledger_option
@budget_option
@reading_options
@region_option
@skip_bad_option
@option("--keep-order", is_flag=True, help="Keep the order of the rows, which can reveal locations.")
@seed_option
@json_option
@force_option
def protect(
    source: str,
    output: str,
    *,
    mechanism: MechanismChoice,
    keep: tuple[str, ...],
    keep_all: bool,
    user: str | None,
    ledger: Path | None,
    budget: tuple[str, ...],
    reading: ReadOptions,
    region: str | None,
    skip_bad: bool,
    keep_order: bool,
    seed: int | None,
    json: bool,
    force: bool,
) -> None:
    """Publish the locations of INPUT with noise, in random order and without other columns."""
    if json and output == "-":
        raise UsageError("--json and OUTPUT - both go to standard output; name a file for OUTPUT")
    check_output_is_none_of(output, {**mechanism.files, "the --ledger": ledger, "the --region file": region})
    built = mechanism.build(region, seed)
    charged = open_ledger(ledger, budget, user)
    from nearveil.release.protect import protect as publish  # noqa: PLC0415 - slow to load, and not for --help

    result = publish(
        source,
        output,
        built,
        user=user,
        keep=keep,
        keep_all=keep_all,
        read=reading,
        keep_order=keep_order,
        skip_bad=skip_bad,
        ledger=charged,
        force=force,
        progress=progress_bar,
    )
    for warning in result.warnings:
        warn(warning)
    note_skipped(result.skipped)
    if json:
        say_json(result.to_dict())
    elif output == "-":
        # The file itself is there.
        note(_as_text(result, "on standard output", user, charged))
    else:
        say(_as_text(result, f"in {output}", user, charged))


def _as_text(result: Protected, where: str, user: str | None, ledger: Ledger | None) -> str:
    """Return the result in one sentence, what is not published, and the guarantee."""
    first = result.summary.removesuffix(".").replace(" published", f" published {where}", 1)
    lines = [f"{first}." if user else f"{first}. {COUNTS_ROWS}"]
    if result.guarantee.counted == "places":
        cost = result.guarantee
        most = (
            f"{round_up(cost.epsilon * cost.most_places)} {cost.unit} for the user with the most, {cost.most_places:,}"
        )
        lines.append(f"The guarantee counts places, and losses add up: epsilon = {most}.")
    if ledger is not None:
        lines.append("Every user was charged in the ledger. A further release adds to that, until a budget is used up.")
    if result.left_out:
        lines.append(f"Left out: {', '.join(result.left_out)}. --keep NAME publishes a column.")
    return "\n".join([*lines, result.guarantee.card(full_is_at=FULL_CARD)])
