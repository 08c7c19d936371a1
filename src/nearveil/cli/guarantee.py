"""``nearveil guarantee``: explain a guarantee in plain words."""

from __future__ import annotations

import json as json_format
import sys
from pathlib import Path
from typing import Any

import click

from nearveil.cli._command import command
from nearveil.cli._mechanism import MechanismChoice, mechanism_options
from nearveil.cli._options import FILE, json_option, region_option
from nearveil.cli._output import say, say_json, waiting
from nearveil.errors import DataError, UsageError
from nearveil.io.atomic import read_text
from nearveil.privacy.guarantee import Guarantee, guarantee_from_dict

_SYNTHETIC = (
    "This is for the {0} of a synthetic city; those of your users differ in number and size. "
    "'nearveil protect' prints their guarantee, and 'nearveil guarantee FILE' explains it."
)


@command()
@click.argument(
    "source",
    metavar="[FILE]",
    type=FILE,
    required=False,
    help="Output of 'protect --json', 'fit --json' or 'certify'; - for standard input.",
)
@mechanism_options
@region_option
@json_option
def guarantee(source: Path | None, *, mechanism: MechanismChoice, region: str | None, json: bool) -> None:
    """Explain in plain words what a release guarantees, and what it does not.

    Explains the guarantee in FILE, or that of the mechanism that the options describe (dprs and hide-among on a
    synthetic city).
    """
    if source is not None and (mechanism.is_given or region is not None):
        raise UsageError("give either a FILE or options that describe a mechanism, not both")
    found = _of_mechanism(mechanism, region) if source is None else _read(source)
    if json:
        say_json(found.to_dict())
    else:
        say(found.explain())


def _of_mechanism(mechanism: MechanismChoice, region: str | None) -> Guarantee:
    built = mechanism.build(region, for_synthetic_users=True)
    if not built.is_to_be_fitted:
        with waiting("computing the largest loss"):
            return built.guarantee
    from nearveil.cli.populations import fitted_on_made_up_people  # noqa: PLC0415 - most mechanisms need no users

    return fitted_on_made_up_people(built).guarantee.with_note(_SYNTHETIC.format(built.learns))


def _read(source: Path) -> Guarantee:
    text = sys.stdin.read() if str(source) == "-" else read_text(source, "guarantee")
    try:
        document: Any = json_format.loads(text)
    except json_format.JSONDecodeError:
        raise DataError(f"{source} is not JSON; 'nearveil protect --json' prints a guarantee") from None
    if isinstance(document, dict) and isinstance(document.get("guarantee"), dict):
        document = document["guarantee"]
    return guarantee_from_dict(document)
