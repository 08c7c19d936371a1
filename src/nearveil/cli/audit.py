"""``nearveil audit``: test a mechanism against its privacy claim, and return a verdict with a witness."""

from __future__ import annotations

import time
from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path

import click

from nearveil.auditing.auditor import DEFAULT_CONFIDENCE, DEFAULT_EXTERNAL_SAMPLES, DEFAULT_SAMPLES, Verdict
from nearveil.auditing.auditor import audit as run_audit
from nearveil.auditing.check import check_witness, read_witness
from nearveil.auditing.claims import CLAIM_FORMS, Claim, claim_from_json, is_claim_text
from nearveil.auditing.external import DEFAULT_TIMEOUT_S, CommandSubject, ModuleSubject, closed_after
from nearveil.auditing.fit import DEFAULT_FITS, audit_fit
from nearveil.auditing.fit_witness import FitWitness
from nearveil.auditing.subjects import Place, Subject, own_subject
from nearveil.auditing.witness import Witness
from nearveil.cli._audit_text import AuditResult, check_result, fit_result, release_result
from nearveil.cli._command import command, option
from nearveil.cli._mechanism import MechanismChoice, flag_of, mechanism_options
from nearveil.cli._options import (
    DEMO_REGION,
    FILE,
    chosen_region,
    force_option,
    json_option,
    optional_region,
    region_option,
)
from nearveil.cli._output import note, progress_bar, say, say_json, warn
from nearveil.cli.populations import fitted_on_made_up_people
from nearveil.errors import DataError, UsageError, require_package
from nearveil.io.atomic import check_output, read_text, replacing
from nearveil.io.synthetic import PEOPLE, SEED
from nearveil.mechanisms.base import Learned, Mechanism
from nearveil.region import Region, named_region

EXIT_CODES = {Verdict.CONSISTENT: 0, Verdict.VIOLATED: 1, Verdict.INCONCLUSIVE: 3}
# Few centres, so that one user has a visible effect; one round, so that thousands of fits take seconds.
_FIT_SETTINGS = {"centres": 2, "rounds": 1}

_AUDIT, _YOURS, _OUTPUT = "Audit", "Your own function or program", "Output"


@command()
@option(
    "--claim",
    metavar="own|paper|FILE|TEXT",
    help="Claim to test: the mechanism's own, the paper's, a JSON file, or text such as local:1, interval:1, "
    "metric:0.004/m, metric:4/km, metric:4/km+2 (with an offset), elastic:1.5 (per step between cells); a delta may "
    "follow, as in local:1:1e-6.",
    show_default="own",
    heading=_AUDIT,
)
@option(
    "--stage",
    type=click.Choice(["release", "fit"]),
    default="release",
    help="Audit the release of locations, or the fit of the intervals of dprs or of the cells of hide-among.",
    heading=_AUDIT,
)
@option(
    "--samples",
    type=click.IntRange(min=1),
    metavar="N",
    help="Total number of outputs to draw, at least 2,000; with --stage fit, number of fits.",
    show_default="2,000,000; 400,000 with --callable or --command; 40,000 fits",
    heading=_AUDIT,
)
@option(
    "--confidence",
    type=click.FloatRange(0.95, 1 - 1e-9),
    default=DEFAULT_CONFIDENCE,
    help="Confidence of the verdict: a true claim is called violated with probability at most 1 minus this.",
    heading=_AUDIT,
)
@option(
    "--seed",
    type=click.IntRange(min=0),
    metavar="N",
    help="Make the audit repeatable.",
    show_default="random",
    heading=_AUDIT,
)
@option(
    "--place",
    multiple=True,
    metavar="LAT,LON",
    help="Also try pairs around this location, and do not search the region; may be repeated. It is written to the "
    "witness: use an invented location.",
    heading=_AUDIT,
)
@option(
    "--check",
    type=FILE,
    metavar="WITNESS.json",
    help="Check a saved witness on fresh samples instead of auditing.",
    heading=_AUDIT,
)
@region_option
@mechanism_options
@option(
    "--callable",
    "function",
    metavar="package.module:NAME|FILE.py:NAME",
    help="Python function to audit: from points in degrees and a random generator to points.",
    heading=_YOURS,
)
@option(
    "--command",
    "program",
    metavar='"PROGRAM {input} {output}"',
    help="Program to audit: reads latitude,longitude rows as CSV, and writes one row for each.",
    heading=_YOURS,
)
@option("--timeout", type=float, help="Time limit of one call, in seconds.", show_default="60", heading=_YOURS)
@option(
    "--witness",
    type=FILE,
    metavar="FILE.json",
    help="Write the pair and the event that were counted, for --check.",
    heading=_OUTPUT,
)
@option(
    "--picture",
    type=FILE,
    metavar="FILE.png",
    help="Draw the outputs of the two locations and the event that was counted.",
    heading=_OUTPUT,
)
@json_option
@force_option
def audit(
    *,
    claim: str | None,
    stage: str,
    samples: int | None,
    confidence: float,
    seed: int | None,
    place: tuple[str, ...],
    check: Path | None,
    region: str | None,
    mechanism: MechanismChoice,
    function: str | None,
    program: str | None,
    timeout: float | None,
    witness: Path | None,
    picture: Path | None,
    json: bool,
    force: bool,
) -> int:
    """Test the privacy claim of a mechanism: search for two locations between which it loses more.

    Without --intervals, dprs uses the intervals of a synthetic city, and hide-among its cells without --cells. Exit
    codes: 0 consistent (no violation found, which is not a proof), 1 violated, 2 wrong usage, 3 inconclusive, 4 failure
    without a verdict.
    """
    if stage == "fit" and (picture is not None or place):
        raise UsageError("--picture and --place are for --stage release: a fit has no two locations; leave them out")
    _check_outputs(witness, picture, force=force)
    run = _Run(mechanism, function, program, timeout, samples, confidence, seed)
    if check is not None:
        # An elastic claim about somebody else's mechanism counts steps between cells. The witness only names them.
        others = mechanism.parameters.keys() - ({"cells"} if run.is_external else set())
        if others or region is not None or claim is not None or place or stage != "release":
            raise UsageError(
                "--check reads mechanism, region, claim and locations from the witness; leave these options out"
            )
        found = run.check(check, has_picture=picture is not None)
    else:
        # Intervals and cells tell where to search, also in an external mechanism.
        ours = [*["mechanism"] * (mechanism.name is not None), *mechanism.parameters.keys() - {"intervals", "cells"}]
        if run.is_external and ours:
            raise UsageError(f"{flag_of(ours[0])} cannot be used with --callable or --command; leave it out")
        given = optional_region(region, mechanism.learned)
        box = chosen_region(region) if given is None and run.is_external else given or named_region(DEMO_REGION)
        if stage == "fit":
            found = run.audit_fit(box, _read_claim(claim))
        else:
            found = run.audit_release(box, given, _read_claim(claim), _read_places(place, box))
    result = found.result
    if json:
        say_json(result.document)
    else:
        say(result.text)
    # Last, so that the verdict is printed even if a file cannot be written.
    found.write(witness, picture, force=force)
    return EXIT_CODES[result.verdict]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Found:
    """A result, and what a picture of it is drawn from."""

    result: AuditResult
    subject: Subject | None = None
    learned: Learned | None = None

    def write(self, path: Path | None, picture: Path | None, *, force: bool) -> None:
        witness, subject = self.result.witness, self.subject
        if witness is None and (path is not None or picture is not None):
            warn("nothing was counted, so there is no witness to write or draw")
        elif witness is not None and path is not None:
            with replacing(path, force=force) as partial:
                partial.write_text(witness.to_json(), encoding="utf-8")
        if picture is not None and isinstance(witness, Witness) and subject is not None:
            from nearveil.report.audit_picture import draw_audit  # noqa: PLC0415

            with replacing(picture, force=force) as partial, closed_after(subject):
                draw_audit(witness, subject, partial, title=self.result.title, learned=self.learned)
            note(f"Picture written to {picture}.")


@dataclass(frozen=True, slots=True)
class _Run:
    """What to audit, and with how many samples."""

    chosen: MechanismChoice
    function: str | None
    program: str | None
    timeout_s: float | None
    samples: int | None
    confidence: float
    seed: int | None

    def __post_init__(self) -> None:
        if self.function is not None and self.program is not None:
            raise UsageError("--callable and --command both name what to audit; give one of them")
        if self.timeout_s is not None and not self.is_external:
            raise UsageError("--timeout is for --callable and --command; leave it out")

    @property
    def limit_s(self) -> float:
        return DEFAULT_TIMEOUT_S if self.timeout_s is None else self.timeout_s

    @property
    def is_external(self) -> bool:
        return self.function is not None or self.program is not None

    def audit_release(
        self, box: Region, given: Region | None, claim: Claim | str | None, places: tuple[Place, ...]
    ) -> _Found:
        """Audit with made-up locations in a box, which is the mechanism's region if it was given."""
        subject: Subject
        learned: Learned | None
        if self.is_external:
            audited, samples = f"{self.function or self.program} in {box}", self.samples or DEFAULT_EXTERNAL_SAMPLES
            learned = self.chosen.learned
            if self.function is not None:
                subject = ModuleSubject(self.function, box, self.limit_s)
            else:
                subject = CommandSubject(self.program or "", box, self.limit_s)
        else:
            built = self.chosen.build(given, for_synthetic_users=True)
            mechanism, samples = fitted_on_made_up_people(built), self.samples or DEFAULT_SAMPLES
            subject, audited = own_subject(mechanism, box), _describe(mechanism, claim, synthetic=built.is_to_be_fitted)
            learned = mechanism.learned
        with closed_after(subject), progress_bar("auditing", samples) as advance:
            report = run_audit(
                subject,
                claim,
                places=places,
                learned=learned,
                samples=samples,
                confidence=self.confidence,
                seed=self.seed,
                progress=advance,
            )
        return _Found(result=release_result(report, audited), subject=subject, learned=learned)

    def audit_fit(self, box: Region, claim: Claim | str | None) -> _Found:
        started, mechanism, fits = time.monotonic(), self._fit_to_audit(box), self.samples or DEFAULT_FITS
        with progress_bar("fitting", fits) as advance:
            report = audit_fit(
                mechanism, claim, fits=fits, confidence=self.confidence, seed=self.seed, progress=advance
            )
        return _Found(result=fit_result(report, mechanism, time.monotonic() - started))

    def check(self, path: Path, *, has_picture: bool) -> _Found:
        witness = read_witness(path)
        if has_picture and isinstance(witness, FitWitness):
            raise UsageError("--picture cannot draw this witness, which is about a fit; leave it out")
        check = check_witness(
            witness,
            mechanism=self.chosen.name,
            function=self.function,
            command=self.program,
            cells=self.chosen.parameters.get("cells"),
            timeout_s=self.limit_s,
            samples=self.samples,
            confidence=self.confidence,
            seed=self.seed,
            progress=progress_bar,
        )
        return _Found(result=check_result(check), subject=check.subject, learned=check.learned)

    def _fit_to_audit(self, box: Region) -> Mechanism:
        chosen = self.chosen
        if self.is_external or (chosen.name is not None and chosen.entry.mechanism.learns is None):
            raise UsageError(
                "--stage fit is for dprs and hide-among only, because other mechanisms have no fit; leave it out"
            )
        if "intervals" in chosen.parameters:
            raise UsageError("the --intervals file is already fitted; leave it out to audit the fit")
        if chosen.name is None and "hide_among" not in chosen.parameters:
            chosen = replace(chosen, name="dprs")
        takes = chosen.entry.parameters
        few = {name: value for name, value in _FIT_SETTINGS.items() if name in takes}
        return replace(chosen, parameters={**few, **chosen.parameters}).build(box)


def _read_claim(text: str | None) -> Claim | str | None:
    """Return the text of a claim unchanged, or read the claim from a file."""
    if text is None or text in ("own", "paper") or is_claim_text(text):
        return text
    path = Path(text)
    if not path.suffix and not path.exists():
        raise UsageError(f"--claim takes own, paper, a file, or {CLAIM_FORMS}")
    return claim_from_json(read_text(path, "claim"))


def _read_places(texts: Iterable[str], region: Region) -> tuple[Place, ...]:
    """Read locations in the region, each written as latitude,longitude."""
    places = []
    for text in texts:
        try:
            latitude, longitude = (float(part) for part in text.split(","))
            inside = bool(region.contains([(latitude, longitude)])[0])
        except (ValueError, DataError):
            raise UsageError("--place takes a latitude and a longitude in degrees, as in 37.77,-122.42") from None
        if not inside:
            raise UsageError(f"--place is outside the region {region}; choose a location in it, or another region")
        places.append((latitude, longitude))
    return tuple(places)


def _describe(mechanism: Mechanism, claim: Claim | str | None, *, synthetic: bool) -> str:
    text, learns = mechanism.describe(), mechanism.learns
    if synthetic:
        text += f", on {learns} of a synthetic city ({PEOPLE:,} users, seed {SEED}; use others with --{learns})"
    elif learns is not None:
        text += f", on the given {learns}"
    if mechanism.remaps:
        text += "; as published, after the noisy location is moved to the intervals"
    if claim in (None, "own") and any(not statement.holds for statement in mechanism.guarantee.also):
        text += "; its own claim, within an interval. The paper's claim is different, and false: --claim paper"
    return text


def _check_outputs(witness: Path | None, picture: Path | None, *, force: bool) -> None:
    if witness is not None and witness.suffix.lower() != ".json":
        raise UsageError("--witness writes JSON; name a file that ends in .json")
    if picture is not None and picture.suffix.lower() != ".png":
        raise UsageError("--picture draws a PNG picture; name a file that ends in .png")
    if picture is not None:
        require_package("matplotlib", "the picture of an audit")
    for path in (witness, picture):
        if path is not None:
            check_output(path, force=force)
