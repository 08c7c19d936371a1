"""``nearveil certify``: compute the largest privacy loss, and write a certificate that anyone can check."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from textwrap import fill

from nearveil.auditing.certificate import MechanismCertificate, load_certificate
from nearveil.auditing.certificate import certify as certify_mechanism
from nearveil.cli._command import command, option
from nearveil.cli._mechanism import MechanismChoice, mechanism_options
from nearveil.cli._options import FILE, force_option, json_option, region_option
from nearveil.cli._output import progress_bar, say, say_json, waiting
from nearveil.cli.populations import fitted_on_made_up_people
from nearveil.errors import DataError, UsageError
from nearveil.io.atomic import check_output

_WIDTH = 100
_REFUTED = (
    "This is the loss within an interval, and the interval is disclosed. The paper's claim for this release, between "
    "all locations, is false; 'nearveil audit --mechanism dprs --set release=paper --claim paper' shows it."
)


@command()
@option("--out", type=FILE, metavar="FILE.json", help="Write the certificate here.")
@option("--check", type=FILE, metavar="FILE.json", help="Check a certificate instead of making one.")
@region_option
@mechanism_options
@json_option
@force_option
def certify(
    *,
    out: Path | None,
    check: Path | None,
    region: str | None,
    mechanism: MechanismChoice,
    json: bool,
    force: bool,
) -> None:
    """Compute the largest privacy loss of a mechanism over all pairs of locations that it protects.

    Without --intervals, dprs uses the intervals of a synthetic city, and hide-among its cells without --cells.
    """
    if check is not None:
        if mechanism.parameters or out is not None or region is not None:
            raise UsageError("--check reads all parameters from the certificate; leave the other options out")
        _check(check, trusted=mechanism.name, as_json=json)
        return
    if out is not None:
        check_output(out, force=force)
    fitted = fitted_on_made_up_people(mechanism.build(region, for_synthetic_users=True))
    with waiting("computing the largest loss"):
        found = certify_mechanism(fitted)
    if out is not None:
        found.save(out, force=force)
    if json:
        say_json(found.stated)
    else:
        say(_as_text(found, out))


def _as_text(certified: MechanismCertificate, out: Path | None) -> str:
    guarantee, certificate = certified.guarantee, certified.certificate
    unit = "" if guarantee.unit == "per user" else f" {guarantee.unit}"
    frame = {
        "degrees": "degrees of latitude and longitude",
        "metres": "metres from the centre of the region",
        "square": "in the square [-1, 1]² of the region",
    }[certificate.frame]
    found = (
        f"{guarantee.title}: the loss is at most {certificate.bound:.6g}{unit} ({certificate.method}), which epsilon = "
        f"{guarantee.epsilon:.6g}{unit} covers. {certificate.attained:.6g}{unit} is attained between "
        f"{_point(certificate.first)} and {_point(certificate.second)} at the output {_point(certificate.output)}, "
        f"{frame}."
    )
    saved = f"Written to {out}; check it with 'nearveil certify --check {out}'." if out else "Save it with --out FILE."
    where = f"For {certified.mechanism.describe()}."
    parts = [fill(found, _WIDTH), fill(where, _WIDTH), fill(f"How: {certificate.how}", _WIDTH), saved]
    if any(not statement.holds for statement in guarantee.also):
        parts.append(fill(_REFUTED, _WIDTH))
    return "\n".join(parts)


def _point(point: tuple[float, float]) -> str:
    return f"({point[0]:.6g}, {point[1]:.6g})"


def _check(path: Path, *, trusted: str | None, as_json: bool) -> None:
    certified = load_certificate(path, mechanism=trusted)
    found = certified.check(progress=progress_bar)
    if as_json:
        say_json({**asdict(found), "holds": found.holds})
    elif found.holds:
        definition, learned = certified.guarantee.definition, certified.mechanism.learns or "intervals"
        unit = f" {definition.unit}" if definition.is_by_distance else ""
        say(
            f"The certificate holds: the recomputed bound is at most {found.bound:.6g}{unit}; the locations named "
            f"attain {found.attained:.6g}{unit};\nnone of {found.tried:,} random pairs lost more than "
            f"{found.worst_tried:.6g}{unit}. The cost of fitting the {learned} is taken from the file, not checked."
        )
    if not found.holds:
        raise DataError(f"the certificate in {path} does not hold: {'; '.join(found.faults)}")
