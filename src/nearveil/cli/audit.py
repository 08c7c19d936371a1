"""``nearveil audit``: a mechanism and what it is said to promise in, a verdict with a witness out."""

from __future__ import annotations

import os
import sys
import time
import traceback
from collections.abc import Callable, Iterable
from dataclasses import dataclass, fields, replace
from enum import StrEnum
from functools import wraps
from pathlib import Path
from typing import Annotated, Any, NoReturn, TextIO

import typer

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
from nearveil.cli._audit_words import (
    check_document,
    check_text,
    fit_document,
    fit_text,
    fit_words,
    headline,
    report_document,
    report_text,
)
from nearveil.cli._options import (
    FitMethodName,
    ForceOption,
    JsonOption,
    RegionOption,
    ReleaseName,
    ScalingOption,
    Wish,
    build_mechanism,
    chosen_region,
    takes_protection,
)
from nearveil.cli._output import complain, progress_bar, say, say_json, warn
from nearveil.cli.populations import fitted_on_made_up_people
from nearveil.errors import DataError, NearveilError, UsageError, require_package
from nearveil.io.atomic import check_output, read_text, replacing
from nearveil.io.synthetic import PEOPLE, SEED
from nearveil.mechanisms.base import Mechanism
from nearveil.mechanisms.dprs import DPRS
from nearveil.mechanisms.intervals import Intervals
from nearveil.region import Region

_LEAST_CONFIDENCE, _MOST_CONFIDENCE = 0.95, 1 - 1e-9
_MADE_UP = f"intervals of a made-up city ({PEOPLE:,} people, seed {SEED}; others with --intervals)"
# Few centres, so that one person shows; one round, so that thousands of fits take seconds.
_FIT_CENTRES, _FIT_ROUNDS = 2, 1


class StageName(StrEnum):
    """What of a mechanism is audited."""

    RELEASE = "release"
    FIT = "fit"


ClaimOption = Annotated[
    str | None,
    typer.Option(
        help="own, paper, a JSON file, or words: local:1, interval:1, metric:0.004/m, metric:4/km, "
        "metric:4/km+2 (an offset); a delta may follow, as in local:1:1e-6.",
        metavar="own|paper|FILE|WORDS",
        show_default="own",
        rich_help_panel="Audit",
    ),
]
CallableOption = Annotated[
    str | None,
    typer.Option(
        "--callable",
        help="Audit a Python function points, rng -> points, in degrees: package.module:name or file.py:name.",
        metavar="NAME",
        rich_help_panel="Somebody else's mechanism",
    ),
]
CommandOption = Annotated[
    str | None,
    typer.Option(
        help="Audit a program that reads latitude,longitude rows as CSV and writes a row for each.",
        metavar='"PROGRAM {input} {output}"',
        rich_help_panel="Somebody else's mechanism",
    ),
]
TimeoutOption = Annotated[
    float | None,
    typer.Option(
        help="Seconds that one call may take.", show_default="60", rich_help_panel="Somebody else's mechanism"
    ),
]
StageOption = Annotated[
    StageName, typer.Option(help="'fit' audits how dprs finds its intervals.", rich_help_panel="Audit")
]
SamplesOption = Annotated[
    int | None,
    typer.Option(
        help="Outputs to draw in all, at least 2,000; at stage fit, fits to make.",
        show_default="2,000,000; 400,000 for somebody else's; 40,000 fits",
        metavar="N",
        min=1,
        rich_help_panel="Audit",
    ),
]
ConfidenceOption = Annotated[
    float, typer.Option(help="A true claim is called violated less often than 1 minus this.", rich_help_panel="Audit")
]
AuditSeedOption = Annotated[
    int | None,
    typer.Option(
        help="Makes the audit repeatable.", show_default="a fresh one", metavar="N", min=0, rich_help_panel="Audit"
    ),
]
PlaceOption = Annotated[
    list[str] | None,
    typer.Option(
        "--place",
        help="Try pairs around this place as well; the region is then not searched for others. May be given again. The "
        "place is written into the witness: make it up.",
        metavar="LAT,LON",
        show_default="a search over the region",
        rich_help_panel="Audit",
    ),
]
CheckOption = Annotated[
    Path | None,
    typer.Option(
        help="Check a witness on fresh samples instead of auditing.", metavar="WITNESS.json", rich_help_panel="Audit"
    ),
]
WitnessOption = Annotated[
    Path | None,
    typer.Option(help="Write what was counted, to be checked.", metavar="FILE.json", rich_help_panel="Output"),
]
PictureOption = Annotated[
    Path | None,
    typer.Option(
        help="Draw the outputs of the two places, the border and the event.",
        metavar="FILE.png",
        rich_help_panel="Output",
    ),
]


# How the command ends: an exit code for each verdict, and others for everything else.


EXIT_CODES = {Verdict.CONSISTENT: 0, Verdict.VIOLATED: 1, Verdict.INCONCLUSIVE: 3}
WRONG_USAGE = 2
FAILED = 4


def leave_with(verdict: Verdict) -> NoReturn:
    """Leave with the verdict's exit code, once everything is printed."""
    # What cannot be printed must show now, and not when Python has taken the exit code for settled.
    if sys.stdout is not None:
        sys.stdout.flush()
    raise typer.Exit(EXIT_CODES[verdict])


def only_verdicts(command: Callable[..., None]) -> Callable[..., None]:
    """Make a command leave with an exit code that is no verdict, unless it calls `leave_with`."""

    @wraps(command)
    def run(**options: Any) -> None:
        raise typer.Exit(_exit_code(lambda: command(**options)))

    return run


def _exit_code(work: Callable[[], None]) -> int:
    try:
        work()
    except typer.Exit as verdict:
        return verdict.exit_code
    except UsageError as error:
        return _complained(str(error), WRONG_USAGE)
    except NearveilError as error:
        return _complained(str(error))
    except BrokenPipeError:
        # Whoever read the output has left; there is nobody to complain to.
        _let_go_of(sys.stdout)
        return FAILED
    except OSError as error:
        _let_go_of(sys.stdout)
        return _complained(f"the audit failed: {error.strerror or 'the system refused'}; there is no verdict")
    except MemoryError:
        return _complained("there is not enough memory for this audit; ask for fewer --samples")
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
        # Where nothing can be printed, the exit code has to do.
        _let_go_of(sys.stderr)
    return code


def _let_go_of(stream: TextIO) -> None:
    """Send what cannot be printed nowhere: Python would try again at the end, and put its own exit code in place."""
    try:
        stream.flush()
    except OSError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


@only_verdicts
@takes_protection
def audit(
    *,
    claim: ClaimOption = None,
    stage: StageOption = StageName.RELEASE,
    samples: SamplesOption = None,
    confidence: ConfidenceOption = DEFAULT_CONFIDENCE,
    seed: AuditSeedOption = None,
    place: PlaceOption = None,
    check: CheckOption = None,
    region: RegionOption = None,
    wish: Wish,
    scaling: ScalingOption = None,
    function: CallableOption = None,
    command: CommandOption = None,
    timeout: TimeoutOption = None,
    witness: WitnessOption = None,
    picture: PictureOption = None,
    json: JsonOption = False,
    force: ForceOption = False,
) -> None:
    """Look for two places between which a mechanism loses more than is claimed.

    Without --intervals, DPRS gets the intervals of a made-up city. Exit codes: 0 consistent (no violation was found,
    which is no proof), 1 violated, 3 inconclusive, 2 wrong usage, 4 any failure, which is no verdict.
    """
    if not _LEAST_CONFIDENCE <= confidence <= _MOST_CONFIDENCE:
        raise UsageError("--confidence lies between 0.95 and 1 - 1e-9")
    files = _Files(witness=witness, picture=picture, force=force)
    external = _External(function, command, timeout)
    effort = _Effort(samples=samples, confidence=confidence, seed=seed, as_json=json)
    if check is not None:
        if wish.is_more_than_a_name or any((region, scaling, claim, place, stage is not StageName.RELEASE)):
            raise UsageError(
                "--check takes mechanism, region, claim and places from the witness; leave these options out"
            )
        leave_with(_check(check, external, wish.mechanism, effort, files))
    if place and stage is StageName.FIT:
        raise UsageError("--place is for --stage release: a fit is of all people's places; leave it out")
    box = chosen_region(region, scaling, wish.intervals)
    external.refuse_options_of_ours(wish)
    if stage is StageName.FIT:
        leave_with(_audit_fit(wish, box, claim, external, effort, files))
    leave_with(_audit_release(wish, box, claim, _read_places(place or (), box), external, effort, files))


def _audit_release(
    wish: Wish, box: Region, text: str | None, places: tuple[Place, ...], external: _External, effort: _Effort,
    files: _Files,
) -> Verdict:  # fmt: skip
    claim = _read_claim(text)
    if external.is_given:
        subject: Subject = external.subject(box)
        intervals, words = wish.intervals, f"{external.function or external.command} in {box}"
        samples = effort.samples or DEFAULT_EXTERNAL_SAMPLES
    else:
        mechanism = fitted_on_made_up_people(build_mechanism(wish, box))
        subject, words = own_subject(mechanism), _words(mechanism, wish, text)
        intervals = mechanism.current_intervals if isinstance(mechanism, DPRS) else None
        samples = effort.samples or DEFAULT_SAMPLES
    with closed_after(subject):
        with progress_bar("auditing", samples) as advance:
            report = run_audit(
                subject,
                claim,
                places=places,
                intervals=intervals,
                samples=samples,
                confidence=effort.confidence,
                seed=effort.seed,
                progress=advance,
            )
        if effort.as_json:
            say_json(report_document(report, words))
        else:
            say(report_text(report, words))
            if files.picture is None and report.witness is not None:
                say("To see it: --picture audit.png")
        # Last, so that a file that cannot be written does not lose the verdict.
        files.write_witness(None if report.witness is None else report.witness.to_json())
        files.draw(report.witness, subject, intervals, headline(report.verdict, report.claim, report.epsilon_lower))
    return report.verdict


def _audit_fit(
    wish: Wish, box: Region, text: str | None, external: _External, effort: _Effort, files: _Files
) -> Verdict:
    started = time.monotonic()
    if files.picture is not None:
        raise UsageError("--picture draws places, and a fit has none; leave it out")
    mechanism = _fit_to_audit(wish, box, external)
    claim = _read_claim(text)
    fits = effort.samples or DEFAULT_FITS
    with progress_bar("fitting", fits) as advance:
        report = audit_fit(
            mechanism, claim, fits=fits, confidence=effort.confidence, seed=effort.seed, progress=advance
        )
    words, seconds = fit_words(mechanism), time.monotonic() - started
    if effort.as_json:
        say_json(fit_document(report, words, seconds))
    else:
        say(fit_text(report, words, seconds))
    files.write_witness(report.witness.to_json())
    return report.verdict


def _check(path: Path, external: _External, mechanism: str | None, effort: _Effort, files: _Files) -> Verdict:
    witness = read_witness(path)
    if files.picture is not None and isinstance(witness, FitWitness):
        raise UsageError("--picture draws places, and this witness is about a fit; leave it out")
    check = check_witness(
        witness,
        mechanism=mechanism,
        function=external.function,
        command=external.command,
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
            files.draw(check.witness, check.subject, check.intervals, title)
    return check.verdict


# What the options say.


@dataclass(frozen=True, slots=True, kw_only=True)
class _Effort:
    """How much to draw, how sure to be, and how to say it."""

    samples: int | None
    confidence: float
    seed: int | None
    as_json: bool


@dataclass(frozen=True, slots=True)
class _External:
    """Somebody else's mechanism, as the options name it: a function, a command, or neither."""

    function: str | None
    command: str | None
    timeout_s: float | None

    def __post_init__(self) -> None:
        if self.function is not None and self.command is not None:
            raise UsageError("--callable and --command both say what to audit; give one of them")
        if not self.is_given and self.timeout_s is not None:
            raise UsageError("--timeout goes with --callable and --command; leave it out")

    @property
    def is_given(self) -> bool:
        """Whether there is one."""
        return self.function is not None or self.command is not None

    @property
    def limit_s(self) -> float:
        """Seconds that one call may take."""
        return DEFAULT_TIMEOUT_S if self.timeout_s is None else self.timeout_s

    def refuse_options_of_ours(self, wish: Wish) -> None:
        """Refuse options that say how a mechanism of Nearveil is set up."""
        for field in fields(wish) if self.is_given else ():
            # Intervals tell where to look, also in a mechanism that is not ours.
            if not field.name.startswith("intervals") and getattr(wish, field.name) is not None:
                option = f"--{field.name.replace('_', '-')}"
                raise UsageError(f"{option} is for mechanisms of Nearveil and not for --callable or --command")

    def subject(self, region: Region) -> ExternalSubject:
        """Return it, ready to be called."""
        if self.function is not None:
            return ModuleSubject(self.function, region, self.limit_s)
        return CommandSubject(self.command or "", region, self.limit_s)


def _read_claim(text: str | None) -> Claim | str | None:
    """Return the words as they are, or the claim that a file holds."""
    if text is None or text in ("own", "paper") or is_claim_text(text):
        return text
    path = Path(text)
    if not path.suffix and not path.exists():
        raise UsageError(f"--claim takes own, paper, a file, or {CLAIM_FORMS}")
    return claim_from_json(read_text(path, "claim"))


def _read_places(texts: Iterable[str], region: Region) -> tuple[Place, ...]:
    """Read places of the region, each written as latitude,longitude."""
    places = []
    for text in texts:
        try:
            latitude, longitude = (float(part) for part in text.split(","))
            inside = bool(region.contains([(latitude, longitude)])[0])
        except (ValueError, DataError):
            raise UsageError("--place takes a latitude and a longitude in degrees, as in 37.77,-122.42") from None
        if not inside:
            raise UsageError(f"--place names a place outside the region {region}; choose one in it, or another region")
        places.append((latitude, longitude))
    return tuple(places)


def _words(mechanism: Mechanism, wish: Wish, claim: str | None) -> str:
    words = describe_mechanism(mechanism)
    if isinstance(mechanism, DPRS):
        words += f", on {_MADE_UP if wish.intervals is None else 'the given intervals'}"
    if mechanism.remaps:
        words += "; as published, after the noisy place is moved to the intervals"
    if claim in (None, "own") and any(not statement.holds for statement in mechanism.guarantee.also):
        words += "; its own claim, within an interval. The paper's claim is another, and false: --claim paper"
    return words


def _fit_to_audit(wish: Wish, box: Region, external: _External) -> DPRS:
    if external.is_given or wish.mechanism not in (None, "dprs"):
        raise UsageError("--stage fit goes with dprs, which alone learns from people; leave it out")
    if wish.intervals is not None:
        raise UsageError("--intervals are fitted already; leave them out to audit the fit")
    if wish.least_radius is not None:
        raise UsageError("--least-radius comes after the fit and cannot change its verdict; leave it out")
    by_default = FitMethodName.PIC if wish.chosen_release is ReleaseName.PAPER else FitMethodName.PRIVATE_GRID
    method = wish.fit_method or by_default
    rounds = _FIT_ROUNDS if method is FitMethodName.PIC and wish.rounds is None else wish.rounds
    mechanism = build_mechanism(replace(wish, centres=wish.centres or _FIT_CENTRES, rounds=rounds), box)
    if not isinstance(mechanism, DPRS):
        raise TypeError("a wish for dprs gave something else")
    return mechanism


@dataclass(frozen=True, slots=True, kw_only=True)
class _Files:
    """Where to write."""

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
        """Write the witness, if asked for and if there is one."""
        if self.witness is None:
            return
        if text is None:
            warn(f"nothing was counted, so there is no witness to write to {self.witness}")
            return
        with replacing(self.witness, force=self.force) as partial:
            partial.write_text(text, encoding="utf-8")

    def draw(self, witness: Witness | None, subject: Subject, intervals: Intervals | None, title: str) -> None:
        """Draw the picture, if asked for and if there is something to see."""
        if self.picture is None:
            return
        if witness is None:
            warn(f"nothing was counted, so there is nothing to draw in {self.picture}")
            return
        from nearveil.report.audit_picture import draw_audit  # noqa: PLC0415

        with replacing(self.picture, force=self.force) as partial:
            draw_audit(witness, subject, partial, title=title, intervals=intervals)
