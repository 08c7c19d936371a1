"""What ``nearveil audit`` is asked to audit: a mechanism of ours, somebody's function or somebody's command."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, fields, replace
from typing import Any

from nearveil.audit.claims import Claim
from nearveil.audit.external import DEFAULT_TIMEOUT_S, CommandSubject, ExternalSubject, ModuleSubject
from nearveil.audit.pair_search import audit_pairs, mechanism_pairs, place_pairs
from nearveil.audit.pairs import Pair
from nearveil.audit.subjects import Place, Subject, own_subject
from nearveil.cli.audit_claims import claim_on_guarantee, stated_claim
from nearveil.cli.made_up_city import PEOPLE, SEED, fitted_on_made_up_people
from nearveil.cli.mechanism_choice import Wish, build_mechanism
from nearveil.errors import DataError, UsageError
from nearveil.mechanisms.base import Mechanism
from nearveil.mechanisms.dprs import DPRS
from nearveil.mechanisms.intervals import Intervals
from nearveil.mechanisms.spec import mechanism_to_spec
from nearveil.region import Region

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
    words = mechanism_words(mechanism, asked.wish.chosen.value)
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
