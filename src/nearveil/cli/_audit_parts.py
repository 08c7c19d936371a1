"""Options that only ``nearveil audit`` has."""

from __future__ import annotations

import json
import math
import os
import re
import sys
import textwrap
import traceback
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, fields, replace
from enum import StrEnum
from functools import wraps
from pathlib import Path
from typing import Annotated, Any, NoReturn, TextIO

import typer

from nearveil.audit.auditor import AuditReport, PairSummary, Verdict
from nearveil.audit.claims import Claim, claim_from_json, own_claim, paper_claim
from nearveil.audit.external import DEFAULT_TIMEOUT_S, CommandSubject, ExternalSubject, ModuleSubject
from nearveil.audit.pair_search import audit_pairs, mechanism_pairs, place_pairs
from nearveil.audit.pairs import Pair
from nearveil.audit.subjects import Place, Subject, own_subject
from nearveil.audit.witness import Witness
from nearveil.cli._options import Wish, build_mechanism
from nearveil.cli._output import complain, read_text, warn
from nearveil.cli.populations import PEOPLE, SEED, fitted_on_made_up_people
from nearveil.errors import DataError, NearveilError, UsageError
from nearveil.io.atomic import check_output, replacing
from nearveil.mechanisms.base import Mechanism
from nearveil.mechanisms.dprs import DPRS
from nearveil.mechanisms.intervals import Intervals
from nearveil.mechanisms.registry import mechanism_name, mechanism_to_spec
from nearveil.privacy.guarantee import Guarantee, Notion
from nearveil.region import Region
from nearveil.report.audit_picture import draw_audit
from nearveil.report.tables import text_table


class StageName(StrEnum):
    """What of a mechanism is audited."""

    RELEASE = "release"
    FIT = "fit"


@dataclass(frozen=True, slots=True, kw_only=True)
class Effort:
    """How much to draw, how sure to be, and how to say it."""

    samples: int | None
    confidence: float
    seed: int | None
    as_json: bool


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


# How ``nearveil audit`` ends: an exit code for each verdict, and others for everything else.


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


# What ``nearveil audit --claim`` understands: own, paper, a file, or a few words such as ``local:1``.


OWN, PAPER = "own", "paper"

# A number is spelt out, or the plus of 4e+2 would pass for the one before an offset.
_NUMBER = r"[+-]?(?:\d+\.?\d*|\.\d+)(?:e[+-]?\d+)?"
_WORDS = re.compile(
    rf"(local|interval|metric|central):({_NUMBER})(/km|/m)?(?:\+({_NUMBER}))?(?::({_NUMBER}))?", re.IGNORECASE
)
_NOTION_FIRST = re.compile(r"(local|interval|metric|central):", re.IGNORECASE)
_EMPTY_OFFSET = re.compile(r"\+(:|$)")
_FORMS = (
    "a file, or words such as local:1, interval:1, metric:0.004/m, metric:4/km, metric:4/km+2 (and 2 more, "
    "however near two places are) or local:1:1e-6 (a delta)"
)


def claim_on_guarantee(text: str | None, guarantee: Guarantee) -> Claim:
    """Return the claim asked for about something that states a guarantee itself."""
    if text is None or text == OWN:
        return own_claim(guarantee)
    return paper_claim(guarantee) if text == PAPER else stated_claim(text)


def stated_claim(text: str | None) -> Claim:
    """Return a claim that is given in full."""
    if text is None or text in (OWN, PAPER):
        raise UsageError(f"Nearveil does not know what this mechanism promises; give --claim {_FORMS}")
    words = _WORDS.fullmatch(text.strip())
    if words is not None:
        return _claim_in_words(words)
    if _NOTION_FIRST.match(text.strip()):
        if _EMPTY_OFFSET.search(text.strip()):
            raise UsageError(
                "--claim: nothing follows the +; write an offset behind it, as in metric:4/km+2, or leave it out"
            )
        raise UsageError(f"--claim takes numbers behind the notion; give {_FORMS}")
    path = Path(text)
    if not path.suffix and not path.exists():
        raise UsageError(f"--claim takes own, paper, {_FORMS}")
    return claim_from_json(read_text(path, "claim"))


def _claim_in_words(words: re.Match[str]) -> Claim:
    notion, epsilon = Notion(words[1].lower()), float(words[2])
    offset, delta = float(words[4] or 0.0), float(words[5] or 0.0)
    if words[3] and notion is not Notion.METRIC:
        raise UsageError(f"a claim that is {notion} is not per distance; write {notion}:1")
    if not words[3] and notion is Notion.METRIC:
        raise UsageError("a metric claim is per distance; write its unit, as in metric:4/km or metric:0.004/m")
    if words[3] and words[3].lower() == "/km":
        epsilon /= 1000
    claim = Claim(notion, epsilon, delta, "", offset)
    text = f"{notion}, {claim.amount}" + (f", delta = {delta:.3g}" if delta else "")
    return replace(claim, text=text)


# The files of ``nearveil audit``: the witness and the picture, checked before the work and written after it.


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditFiles:
    """Where to write."""

    witness: Path | None
    picture: Path | None
    force: bool

    def __post_init__(self) -> None:
        if self.witness is not None and self.witness.suffix.lower() != ".json":
            raise UsageError("--witness writes JSON; name a file that ends in .json")
        if self.picture is not None and self.picture.suffix.lower() != ".png":
            raise UsageError("--picture draws a PNG picture; name a file that ends in .png")
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
        with replacing(self.picture, force=self.force) as partial:
            draw_audit(witness, subject, partial, title=title, intervals=intervals)


# What ``nearveil audit`` is asked to audit: a mechanism of ours, somebody's function or somebody's command.


_MADE_UP = f"intervals of a made-up city ({PEOPLE:,} people, seed {SEED}; others with --intervals)"


@dataclass(frozen=True, slots=True)
class External:
    """Somebody else's mechanism, as the options name it: a function, a command, or neither."""

    function: str | None = None
    command: str | None = None
    timeout_s: float | None = None

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
    def document(self) -> dict[str, str]:
        """How a witness names it."""
        if self.function is not None:
            return {"kind": "callable", "callable": self.function}
        return {"kind": "command", "command": self.command or ""}

    def subject(self, region: Region) -> ExternalSubject:
        """Return it, ready to be called."""
        limit = DEFAULT_TIMEOUT_S if self.timeout_s is None else self.timeout_s
        if self.function is not None:
            return ModuleSubject(self.function, region, limit)
        return CommandSubject(self.command or "", region, limit)


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """What to audit, as the options say it."""

    wish: Wish
    region: Region
    claim: str | None
    external: External
    places: tuple[Place, ...] = ()

    def __post_init__(self) -> None:
        if not self.external.is_given:
            return
        for field in fields(self.wish):
            # Intervals tell where to look, also in a mechanism that is not ours.
            if field.name != "intervals" and getattr(self.wish, field.name) is not None:
                option = f"--{field.name.replace('_', '-')}"
                raise UsageError(f"{option} is for mechanisms of Nearveil and not for --callable or --command")


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Audited:
    """Something to audit, what it is said to promise, and where to look.

    ``document`` says how to find it again, and ``words`` what it is.
    """

    subject: Subject
    claim: Claim
    pairs: list[Pair]
    intervals: Intervals | None
    document: dict[str, Any]
    words: str


def read_places(texts: Iterable[str], region: Region) -> tuple[Place, ...]:
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


@contextmanager
def audited(asked: Asked) -> Iterator[Audited]:
    """Give what is to be audited; end what was started for it."""
    with _named(asked) as one:
        around = [
            pair
            for place in asked.places
            for pair in place_pairs(asked.region, place, one.claim, intervals=one.intervals)
        ]
        yield replace(one, pairs=[*one.pairs, *around])


@contextmanager
def _named(asked: Asked) -> Iterator[Audited]:
    external, region = asked.external, asked.region
    if not external.is_given:
        yield _own(asked)
        return
    claim = stated_claim(asked.claim)
    with external.subject(region) as subject:
        yield Audited(
            subject=subject,
            claim=claim,
            pairs=audit_pairs(region, claim, intervals=asked.wish.intervals),
            intervals=asked.wish.intervals,
            document={**external.document, "region": asdict(region)},
            words=f"{external.function or external.command} in {region}",
        )


def _own(asked: Asked) -> Audited:
    mechanism = fitted_on_made_up_people(build_mechanism(asked.wish, asked.region))
    words = mechanism_words(mechanism, mechanism_name(mechanism))
    if isinstance(mechanism, DPRS):
        words += f", on {_MADE_UP if asked.wish.intervals is None else 'the given intervals'}"
    if mechanism.remaps:
        words += "; as published, after the noisy place is moved to the intervals"
    claim = claim_on_guarantee(asked.claim, mechanism.guarantee)
    if asked.claim in (None, "own") and any(not statement.holds for statement in mechanism.guarantee.also):
        words += "; its own claim, within an interval. The paper's claim is another, and false: --claim paper"
    return Audited(
        subject=own_subject(mechanism),
        claim=claim,
        pairs=mechanism_pairs(mechanism, claim),
        intervals=mechanism.current_intervals if isinstance(mechanism, DPRS) else None,
        document={"kind": "mechanism", **mechanism_to_spec(mechanism)},
        words=words,
    )


def mechanism_words(mechanism: Mechanism, name: str) -> str:
    """Say which mechanism it is."""
    release = f", release {mechanism.chosen_release}" if isinstance(mechanism, DPRS) else ""
    return f"{name}{release} in {mechanism.resolved_region}"


# What ``nearveil audit`` prints: a verdict, what led to it, and what it does and does not mean.


MEANING = {
    Verdict.VIOLATED: (
        "More is lost than is claimed, at the stated confidence, whatever the proof says. Anyone can check the witness "
        "on fresh samples: save it with --witness FILE.json, then nearveil audit --check FILE.json."
    ),
    Verdict.CONSISTENT: (
        "No violation was found with these samples at these places. That is no proof that the claim is true; a proof "
        "is what nearveil certify gives, for mechanisms that have one."
    ),
    Verdict.INCONCLUSIVE: "Nothing was tested, so this speaks neither for the claim nor against it.",
}

COUNTED = {Verdict.VIOLATED: "Witness", Verdict.CONSISTENT: "The nearest to a witness"}
"""What to call the pair and the event that were counted."""

_WIDTH = 110
_MOST_ROWS = 8


def headline(verdict: Verdict, claim: Claim, epsilon_lower: float) -> str:
    """Return the verdict in one line."""
    claimed = f"{claim.amount} is claimed"
    if verdict is Verdict.INCONCLUSIVE:
        return f"INCONCLUSIVE: {claimed}, and could not be put to the test"
    if claim.offset:
        # A number alone would leave open whether the offset is in it.
        return f"{verdict.upper()}: {claimed}; shown is {claim.shown(epsilon_lower)}"
    if verdict is Verdict.VIOLATED:
        return f"VIOLATED: {claimed}, and it is at least {epsilon_lower:.4g}"
    return f"CONSISTENT: {claimed}, and no more than {epsilon_lower:.4g} could be shown"


def report_text(report: AuditReport, words: str) -> str:
    """Return the report for people."""
    found = report.claim.shown(report.epsilon_lower) if report.witness else "nothing"
    parts = [
        headline(report.verdict, report.claim, report.epsilon_lower),
        facts(
            audited=words,
            claim=report.claim.text,
            found=f"{found}, at a confidence of {confidence_words(report.confidence)}",
            samples=f"{report.samples:,} outputs in {report.seconds:.1f} s, seed {report.seed}",
        ),
        paragraph(f"{COUNTED[report.verdict]}: {report.witness.explain()}" if report.witness else report.explanation),
    ]
    table = _pairs_table(report)
    return "\n\n".join([*parts, *([table] if table else []), paragraph(MEANING[report.verdict])])


def report_document(report: AuditReport, words: str) -> dict[str, Any]:
    """Return the report for machines."""
    witness = None if report.witness is None else json.loads(report.witness.to_json())
    return {**report.to_dict(), "audited": words, "witness": witness}


def facts(**lines: str) -> str:
    """Return labelled lines, one below the other."""
    width = max(map(len, lines)) + 4
    return "\n".join(
        textwrap.fill(
            text,
            _WIDTH,
            initial_indent=f"  {label:<{width}}",
            subsequent_indent=" " * (width + 2),
            break_on_hyphens=False,
        )
        for label, text in lines.items()
    )


def paragraph(text: str) -> str:
    """Return text in lines of readable length."""
    return textwrap.fill(text, _WIDTH, break_on_hyphens=False)


def confidence_words(confidence: float) -> str:
    """Return a confidence as people read it: by how seldom it is wrong, where that is seldom."""
    return f"{confidence:.4g}" if confidence < 0.9995 else f"1 - {1 - confidence:.2g}"


def _pairs_table(report: AuditReport) -> str:
    """The pairs that came nearest to breaking the claim, the one that was counted first."""
    explored = [summary for summary in report.pairs if summary.estimated_loss is not None]
    if not explored:
        return ""
    chosen = report.witness.pair if report.witness else None
    explored.sort(key=lambda summary: (summary.pair is not chosen, -_share(summary)))
    rows = [
        [
            _length(summary.pair.distance_m),
            f"{summary.claimed_loss or 0.0:.3g}",
            f"{summary.estimated_loss or 0.0:.3g}",
            summary.pair.kind + (" (counted)" if summary.pair is chosen else ""),
        ]
        for summary in explored[:_MOST_ROWS]
    ]
    untold = sum(summary.claimed_loss is None for summary in report.pairs)
    unreached = len(report.pairs) - len(explored) - untold
    left_out = [
        f"{number:,} {words}"
        for number, words in (
            (len(explored) - len(rows), "more were looked at"),
            (unreached, "would need more samples"),
            (untold, "are not spoken of by the claim"),
        )
        if number
    ]
    title = "A first look at pairs of places, to choose the one to count (estimates, and no bounds):"
    after = f"\nOf the other pairs, {', '.join(left_out)}; all are in --json." if left_out else ""
    return f"{title}\n{text_table(['apart', 'claimed loss', 'estimated loss', 'where'], rows)}{after}"


def _share(summary: PairSummary) -> float:
    return (summary.estimated_loss or 0.0) / max(summary.claimed_loss or 0.0, 1e-300)


def _length(metres: float) -> str:
    if not math.isfinite(metres):
        return "-"
    return f"{metres:,.0f} m" if metres < 10_000 else f"{metres / 1000:,.1f} km"
