"""``nearveil certify``: the largest privacy loss, computed, and a file with which anyone can check it."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from textwrap import fill
from typing import Annotated

import typer

from nearveil.audit.certificate import MechanismCertificate, load_certificate
from nearveil.audit.certificate import certify as certify_mechanism
from nearveil.cli._options import (
    ForceOption,
    JsonOption,
    RegionOption,
    ScalingOption,
    Wish,
    build_mechanism,
    chosen_region,
    takes_protection,
)
from nearveil.cli._output import say, say_json
from nearveil.cli.populations import fitted_on_made_up_people
from nearveil.errors import DataError, UsageError
from nearveil.io.atomic import check_output
from nearveil.privacy.guarantee import Notion

_WIDTH = 100
_REFUTED = (
    "This is the loss within an interval, and the interval is disclosed. The paper's claim for this release, between "
    "all places, is false; 'nearveil audit --release paper --claim paper' shows it."
)


@takes_protection
def certify(
    *,
    out: Annotated[Path | None, typer.Option(help="Write the certificate here.", metavar="FILE.json")] = None,
    check: Annotated[
        Path | None, typer.Option(help="Check a certificate instead of making one.", metavar="FILE.json")
    ] = None,
    region: RegionOption = None,
    wish: Wish,
    scaling: ScalingOption = None,
    json: JsonOption = False,
    force: ForceOption = False,
) -> None:
    """Compute the largest privacy loss of a mechanism over all pairs of places that it promises to protect.

    Without --intervals, DPRS gets the intervals of a made-up city.
    """
    if check is not None:
        if wish.is_more_than_a_name or out is not None or region is not None or scaling is not None:
            raise UsageError("--check takes everything from the certificate; leave the other options out")
        _check(check, trusted=wish.mechanism, as_json=json)
        return
    if out is not None:
        check_output(out, force=force)
    mechanism = build_mechanism(wish, chosen_region(region, scaling, wish.intervals))
    found = certify_mechanism(fitted_on_made_up_people(mechanism))
    if out is not None:
        found.save(out, force=force)
    if json:
        say_json(found.stated)
    else:
        say(_words(found, out))


def _words(certified: MechanismCertificate, out: Path | None) -> str:
    guarantee, certificate = certified.guarantee, certified.certificate
    unit = "" if guarantee.unit == "per person" else f" {guarantee.unit}"
    frame = "metres from the centre" if certificate.frame == "metres" else "in the square [-1, 1]²"
    found = (
        f"{guarantee.title}: the loss is at most {certificate.bound:.6g}{unit} ({certificate.method}), which epsilon = "
        f"{guarantee.epsilon:.6g}{unit} covers. {certificate.attained:.6g}{unit} is attained between "
        f"{_place(certificate.first)} and {_place(certificate.second)} at the output {_place(certificate.output)}, "
        f"{frame} of the region."
    )
    kept = f"Written to {out}; check it with 'nearveil certify --check {out}'." if out else "Keep it with --out FILE."
    parts = [fill(found, _WIDTH), fill(f"How: {certificate.how}", _WIDTH), kept]
    if any(not statement.holds for statement in guarantee.also):
        parts.append(fill(_REFUTED, _WIDTH))
    return "\n".join(parts)


def _place(place: tuple[float, float]) -> str:
    return f"({place[0]:.6g}, {place[1]:.6g})"


def _check(path: Path, *, trusted: str | None, as_json: bool) -> None:
    certified = load_certificate(path, mechanism=trusted)
    found = certified.check()
    if as_json:
        say_json({**asdict(found), "holds": found.holds})
    elif found.holds:
        unit = " per metre" if certified.guarantee.notion is Notion.METRIC else ""
        say(
            f"The certificate holds: computed anew, the bound is no more than {found.bound:.6g}{unit}; the places "
            f"named attain {found.attained:.6g}{unit};\nof {found.tried:,} pairs tried at random none lost more than "
            f"{found.worst_tried:.6g}{unit}. What the intervals cost those they were fitted on is taken from the file."
        )
    if not found.holds:
        raise DataError(f"the certificate in {path} does not hold: {'; '.join(found.faults)}")
