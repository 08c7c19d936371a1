"""``nearveil audit``: test a mechanism against its privacy claim, and return a verdict with a witness."""

from __future__ import annotations

import os
import sys
import time
import traceback
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from functools import wraps
from pathlib import Path
from typing import Any, NoReturn, TextIO

import click

from nearveil.audit.auditor import (
    DEFAULT_CONFIDENCE,
    DEFAULT_EXTERNAL_SAMPLES,
    DEFAULT_SAMPLES,
    Verdict,
)
from nearveil.audit.auditor import audit as run_audit
from nearveil.audit.check import check_witness, printable, read_witness
from nearveil.audit.claims import CLAIM_FORMS, Claim, claim_from_json, is_claim_text
from nearveil.audit.external import (
    DEFAULT_TIMEOUT_S,
    CommandSubject,
    ExternalSubject,
    ModuleSubject,
    closed_after,
)
from nearveil.audit.fit import DEFAULT_FITS, audit_fit
from nearveil.audit.fit_witness import FitWitness
from nearveil.audit.subjects import Place, Subject, describe_mechanism, own_subject
from nearveil.audit.witness import Witness
from nearveil.cli._audit_text import (
    check_document,
    check_text,
    fit_and_people,
    fit_document,
    fit_text,
    headline,
    report_document,
    report_text,
)
from nearveil.cli._command import command, option
from nearveil.cli._mechanism import MechanismChoice, flag_of, mechanism_options
from nearveil.cli._options import FILE, chosen_region, force_option, json_option, region_option
from nearveil.cli._output import complain, note, progress_bar, say, say_json, warn
from nearveil.cli.populations import fitted_on_made_up_people
from nearveil.errors import DataError, NearveilError, UsageError, require_package
from nearveil.io.atomic import check_output, read_text, replacing
from nearveil.io.synthetic import PEOPLE, SEED
from nearveil.mechanisms.base import Mechanism
from nearveil.mechanisms.cells import Cells
from nearveil.mechanisms.dprs import DPRS
from nearveil.mechanisms.hide_among import HideAmong
from nearveil.mechanisms.intervals import Intervals
from nearveil.region import Region

_LEAST_CONFIDENCE, _MOST_CONFIDENCE = 0.95, 1 - 1e-9
# Few centres, so that one person has a visible effect; one round, so that thousands of fits take seconds.
_FIT_CENTRES, _FIT_ROUNDS = "2", 1


# Exit codes: one for each verdict, and others for everything else.


EXIT_CODES = {Verdict.CONSISTENT: 0, Verdict.VIOLATED: 1, Verdict.INCONCLUSIVE: 3}
WRONG_USAGE = 2
FAILED = 4


def exit_with(verdict: Verdict) -> NoReturn:
    """Exit with the verdict's exit code, after everything is printed."""
    # An error of printing must occur here, and not at exit, when the exit code can no longer change.
    if sys.stdout is not None:
        sys.stdout.flush()
    raise click.exceptions.Exit(EXIT_CODES[verdict])


def only_verdicts(command: Callable[..., None]) -> Callable[..., None]:
    """Make a command exit with a code that is not a verdict, unless it calls `exit_with`."""

    @wraps(command)
    def run(**options: Any) -> None:
        raise click.exceptions.Exit(_exit_code(lambda: command(**options)))

    return run


def _exit_code(work: Callable[[], None]) -> int:
    try:
        work()
    except click.exceptions.Exit as verdict:
        return verdict.exit_code
    except UsageError as error:
        return _complained(str(error), WRONG_USAGE)
    except NearveilError as error:
        return _complained(str(error))
    except BrokenPipeError:
        # The reader of the output has closed it.
        _discard_output(sys.stdout)
        return FAILED
    except OSError as error:
        _discard_output(sys.stdout)
        return _complained(f"the audit failed: {error.strerror or 'the system refused'}; there is no verdict")
    except MemoryError:
        return _complained("not enough memory for this audit; use fewer --samples")
    except (Exception, SystemExit) as error:
        if os.environ.get("NEARVEIL_DEBUG"):
            traceback.print_exc()
        name = type(error).__name__
        return _complained(f"the audit failed ({name}); set NEARVEIL_DEBUG=1 to see where, and please report it")
    return _complained("the audit ended without a verdict; please report it")


def _complained(text: str, code: int = FAILED) -> int:
    try:
        complain(text)
    except OSError:
        # Nothing can be printed; the exit code remains.
        _discard_output(sys.stderr)
    return code


def _discard_output(stream: TextIO) -> None:
    """Discard unprinted output: Python would try again at exit, and replace the exit code."""
    try:
        stream.flush()
    except OSError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


_AUDIT, _YOURS, _OUTPUT = "Audit", "Your own function or program", "Output"


@command()
@only_verdicts
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
    type=float,
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
    "witness: use a made-up location.",
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
) -> None:
    """Test the privacy claim of a mechanism: search for two locations between which it loses more.

    Without --intervals, dprs uses the intervals of a made-up city, and hide-among its cells without --cells. Exit
    codes: 0 consistent (no violation found, which is not a proof), 1 violated, 2 wrong usage, 3 inconclusive, 4 failure
    without a verdict.
    """
    if not _LEAST_CONFIDENCE <= confidence <= _MOST_CONFIDENCE:
        raise UsageError("--confidence must be between 0.95 and 1 - 1e-9")
    files = _OutputFiles(witness=witness, picture=picture, force=force)
    external = _External(function, program, timeout)
    effort = _Effort(samples=samples, confidence=confidence, seed=seed, as_json=json)
    if check is not None:
        # An elastic claim about somebody else's mechanism counts steps between cells. The witness only names them.
        others = mechanism.parameters.keys() - ({"cells"} if external.is_given else set())
        if others or region is not None or claim is not None or place or stage != "release":
            raise UsageError(
                "--check reads mechanism, region, claim and locations from the witness; leave these options out"
            )
        exit_with(_check(check, external, mechanism, effort, files))
    if place and stage == "fit":
        raise UsageError("--place is for --stage release, because a fit uses all locations; leave it out")
    box = chosen_region(region, mechanism.learned)
    external.refuse_options_of_ours(mechanism)
    if stage == "fit":
        exit_with(_audit_fit(mechanism, box, claim, external, effort, files))
    exit_with(_audit_release(mechanism, box, claim, _read_places(place, box), external, effort, files))


def _audit_release(
    chosen: MechanismChoice, box: Region, text: str | None, places: tuple[Place, ...], external: _External,
    effort: _Effort, files: _OutputFiles,
) -> Verdict:  # fmt: skip
    claim = _read_claim(text)
    if external.is_given:
        subject: Subject = external.subject(box)
        intervals, cells = chosen.intervals, chosen.cells
        audited = f"{external.function or external.program} in {box}"
        samples = effort.samples or DEFAULT_EXTERNAL_SAMPLES
    else:
        built = chosen.build(box)
        mechanism = fitted_on_made_up_people(built)
        subject, audited = own_subject(mechanism), _describe(mechanism, text, made_up=built.is_to_be_fitted)
        intervals = mechanism.current_intervals if isinstance(mechanism, DPRS) else None
        cells = mechanism.current_cells if isinstance(mechanism, HideAmong) else None
        samples = effort.samples or DEFAULT_SAMPLES
    with closed_after(subject):
        with progress_bar("auditing", samples) as advance:
            report = run_audit(
                subject,
                claim,
                places=places,
                intervals=intervals,
                cells=cells,
                samples=samples,
                confidence=effort.confidence,
                seed=effort.seed,
                progress=advance,
            )
        if effort.as_json:
            say_json(report_document(report, audited))
        else:
            say(report_text(report, audited))
            if files.picture is None and report.witness is not None:
                say("To draw it: --picture audit.png")
        # Last, so that the verdict is printed even if a file cannot be written.
        files.write_witness(None if report.witness is None else report.witness.to_json())
        title = headline(report.verdict, report.claim, report.epsilon_lower)
        files.draw(report.witness, subject, title, intervals=intervals, cells=cells)
    return report.verdict


def _audit_fit(
    chosen: MechanismChoice,
    box: Region,
    text: str | None,
    external: _External,
    effort: _Effort,
    files: _OutputFiles,
) -> Verdict:
    started = time.monotonic()
    if files.picture is not None:
        raise UsageError("--picture is for --stage release, because a fit has no two locations; leave it out")
    mechanism = _fit_to_audit(chosen, box, external)
    claim = _read_claim(text)
    fits = effort.samples or DEFAULT_FITS
    with progress_bar("fitting", fits) as advance:
        report = audit_fit(
            mechanism, claim, fits=fits, confidence=effort.confidence, seed=effort.seed, progress=advance
        )
    audited, seconds = fit_and_people(mechanism), time.monotonic() - started
    if effort.as_json:
        say_json(fit_document(report, audited, seconds))
    else:
        say(fit_text(report, audited, seconds))
    files.write_witness(report.witness.to_json())
    return report.verdict


def _check(path: Path, external: _External, chosen: MechanismChoice, effort: _Effort, files: _OutputFiles) -> Verdict:
    witness = read_witness(path)
    if files.picture is not None and isinstance(witness, FitWitness):
        raise UsageError("--picture cannot draw this witness, which is about a fit; leave it out")
    check = check_witness(
        witness,
        mechanism=chosen.name,
        function=external.function,
        command=external.program,
        cells=chosen.cells,
        timeout_s=external.limit_s,
        samples=effort.samples,
        confidence=effort.confidence,
        seed=effort.seed,
        progress=progress_bar,
    )
    if effort.as_json:
        say_json(check_document(check))
    else:
        say(check_text(check))
    files.write_witness(check.witness.to_json())
    if isinstance(check.witness, Witness) and check.subject is not None:
        title = printable(headline(check.verdict, check.witness.claim, check.epsilon_lower))
        with closed_after(check.subject):
            files.draw(check.witness, check.subject, title, intervals=check.intervals, cells=check.cells)
    return check.verdict


# Groups of options.


@dataclass(frozen=True, slots=True, kw_only=True)
class _Effort:
    """Number of samples, confidence, seed and output format."""

    samples: int | None
    confidence: float
    seed: int | None
    as_json: bool


@dataclass(frozen=True, slots=True)
class _External:
    """The options --callable, --command and --timeout."""

    function: str | None
    program: str | None
    timeout_s: float | None

    def __post_init__(self) -> None:
        if self.function is not None and self.program is not None:
            raise UsageError("--callable and --command both name what to audit; give one of them")
        if not self.is_given and self.timeout_s is not None:
            raise UsageError("--timeout is for --callable and --command; leave it out")

    @property
    def is_given(self) -> bool:
        """Whether a function or a command is given."""
        return self.function is not None or self.program is not None

    @property
    def limit_s(self) -> float:
        """Time limit of one call, in seconds."""
        return DEFAULT_TIMEOUT_S if self.timeout_s is None else self.timeout_s

    def refuse_options_of_ours(self, chosen: MechanismChoice) -> None:
        """Refuse the parameters of Nearveil's own mechanisms."""
        # Intervals and cells tell where to search, also in an external mechanism.
        ours = ["mechanism"] * (chosen.name is not None) + [*chosen.parameters.keys() - {"intervals", "cells"}]
        if self.is_given and ours:
            raise UsageError(f"{flag_of(ours[0])} cannot be used with --callable or --command; leave it out")

    def subject(self, region: Region) -> ExternalSubject:
        """Return the function or the command as a subject of the audit."""
        if self.function is not None:
            return ModuleSubject(self.function, region, self.limit_s)
        return CommandSubject(self.program or "", region, self.limit_s)


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


def _describe(mechanism: Mechanism, claim: str | None, *, made_up: bool) -> str:
    text, learns = describe_mechanism(mechanism), mechanism.learns
    if made_up:
        text += f", on {learns} of a made-up city ({PEOPLE:,} people, seed {SEED}; use others with --{learns})"
    elif learns is not None:
        text += f", on the given {learns}"
    if mechanism.remaps:
        text += "; as published, after the noisy location is moved to the intervals"
    if claim in (None, "own") and any(not statement.holds for statement in mechanism.guarantee.also):
        text += "; its own claim, within an interval. The paper's claim is different, and false: --claim paper"
    return text


def _fit_to_audit(chosen: MechanismChoice, box: Region, external: _External) -> DPRS | HideAmong:
    if external.is_given or chosen.name not in (None, "dprs", "hide-among"):
        raise UsageError(
            "--stage fit is for dprs and hide-among only, because other mechanisms have no fit; leave it out"
        )
    if chosen.chosen == "hide-among":
        built = chosen.build(box)
        if not isinstance(built, HideAmong):
            raise TypeError("the options of hide-among did not give a HideAmong")
        return built
    if chosen.intervals is not None:
        raise UsageError("the --intervals file is already fitted; leave it out to audit the fit")
    if "least_radius_m" in chosen.settings:
        raise UsageError("least_radius_m is applied after the fit and cannot change the verdict; leave it out")
    mechanism = replace(chosen, name="dprs", settings={"centres": _FIT_CENTRES, **chosen.settings}).build(box)
    if not isinstance(mechanism, DPRS):
        raise TypeError("the options of dprs did not give a DPRS")
    if mechanism.fit_plan.method == "pic" and "rounds" not in chosen.settings:
        return mechanism.with_params(rounds=_FIT_ROUNDS)
    return mechanism


@dataclass(frozen=True, slots=True, kw_only=True)
class _OutputFiles:
    """The files to write."""

    witness: Path | None
    picture: Path | None
    force: bool

    def __post_init__(self) -> None:
        if self.witness is not None and self.witness.suffix.lower() != ".json":
            raise UsageError("--witness writes JSON; name a file that ends in .json")
        if self.picture is not None and self.picture.suffix.lower() != ".png":
            raise UsageError("--picture draws a PNG picture; name a file that ends in .png")
        if self.picture is not None:
            require_package("matplotlib", "the picture of an audit")
        for path in (self.witness, self.picture):
            if path is not None:
                check_output(path, force=self.force)

    def write_witness(self, text: str | None) -> None:
        """Write the witness if there is one and --witness is given."""
        if self.witness is None:
            return
        if text is None:
            warn(f"nothing was counted, so there is no witness to write to {self.witness}")
            return
        with replacing(self.witness, force=self.force) as partial:
            partial.write_text(text, encoding="utf-8")

    def draw(
        self, witness: Witness | None, subject: Subject, title: str, *, intervals: Intervals | None, cells: Cells | None
    ) -> None:
        """Draw the picture if there is a witness and --picture is given."""
        if self.picture is None:
            return
        if witness is None:
            warn(f"nothing was counted, so there is nothing to draw in {self.picture}")
            return
        from nearveil.report.audit_picture import draw_audit  # noqa: PLC0415

        with replacing(self.picture, force=self.force) as partial:
            draw_audit(witness, subject, partial, title=title, intervals=intervals, cells=cells)
        note(f"Picture written to {self.picture}.")
