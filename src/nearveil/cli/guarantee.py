"""``nearveil guarantee``: explain a guarantee in plain words."""

from __future__ import annotations

import json as json_format
import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from nearveil.cli._old_options import (
    CardName,
    JsonOption,
    RegionOption,
    ScalingOption,
    chosen_region,
)
from nearveil.cli._output import say, say_json, waiting
from nearveil.cli._protection import (
    ProtectionOptions,
    build_mechanism,
    takes_protection,
)
from nearveil.cli.populations import fitted_on_made_up_people
from nearveil.errors import DataError, UsageError
from nearveil.io.atomic import read_text
from nearveil.io.synthetic import PEOPLE
from nearveil.privacy.explain import explain
from nearveil.privacy.guarantee import Guarantee, guarantee_from_dict

_MADE_UP = (
    f"This is for the {{0}} of a made-up city ({PEOPLE:,} people, a fixed seed). The {{0}} of your people will differ "
    "in number and size; 'nearveil protect' prints their card, and 'nearveil guarantee FILE' explains it."
)


@takes_protection
def guarantee(
    source: Annotated[
        Path | None,
        typer.Argument(
            metavar="[FILE]", help="Output of 'protect --json', 'fit --json' or 'certify'; - for standard input."
        ),
    ] = None,
    *,
    region: RegionOption = None,
    protection: ProtectionOptions,
    scaling: ScalingOption = None,
    card: Annotated[
        CardName | None, typer.Option(help="Print the card of the guarantee instead of the explanation.")
    ] = None,
    json: JsonOption = False,
) -> None:
    """Explain in plain words what a release guarantees, and what it does not.

    Explains the guarantee in FILE, or that of the mechanism that the options describe (dprs and hide-among on a
    made-up city).
    """
    if source is not None and (protection.is_given or region is not None or scaling is not None):
        raise UsageError("give either a FILE or options that describe a mechanism, not both")
    if source is not None:
        found = _read(source)
    else:
        mechanism = build_mechanism(protection, chosen_region(region, scaling, protection.learned))
        fitted = fitted_on_made_up_people(mechanism)
        with waiting("computing the largest loss"):
            found = fitted.guarantee
        if mechanism.is_to_be_fitted:
            found = found.with_note(_MADE_UP.format(mechanism.learns))
    if json:
        say_json(found.to_dict())
    else:
        say(found.card(full=card is CardName.FULL) if card else explain(found))


def _read(source: Path) -> Guarantee:
    text = sys.stdin.read() if str(source) == "-" else read_text(source, "guarantee")
    try:
        document: Any = json_format.loads(text)
    except json_format.JSONDecodeError:
        raise DataError(f"{source} is not JSON; 'nearveil protect --json' prints a guarantee") from None
    if isinstance(document, dict) and isinstance(document.get("guarantee"), dict):
        document = document["guarantee"]
    return guarantee_from_dict(document)
