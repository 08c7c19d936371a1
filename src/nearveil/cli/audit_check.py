"""``nearveil audit --check``: does a witness stand on fresh samples. Nothing that it says of itself is believed."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from nearveil.audit.auditor import Verdict
from nearveil.audit.bounds import largest_loss_bound, loss_bounds
from nearveil.audit.claims import Claim
from nearveil.audit.fit import FORMAT as FIT_FORMAT
from nearveil.audit.fit import FitWitness, fit_witness_from_json, recheck_fit
from nearveil.audit.pair_search import with_intervals
from nearveil.audit.subjects import Subject, chosen_seed, own_subject
from nearveil.audit.witness import Witness, recheck, witness_from_json
from nearveil.cli.audit_files import AuditFiles
from nearveil.cli.audit_fit_stage import DEFAULT_FITS, VIEWS, fit_of, fit_witness_document, mechanism_of_fit
from nearveil.cli.audit_options import Effort
from nearveil.cli.audit_subjects import External, mechanism_words
from nearveil.cli.audit_words import confidence_words, facts, headline, paragraph
from nearveil.cli.console import progress_bar, say, say_json
from nearveil.cli.json_files import read_text
from nearveil.errors import DataError, UsageError
from nearveil.mechanisms.dprs import DPRS
from nearveil.mechanisms.intervals import Intervals
from nearveil.mechanisms.spec import mechanism_from_spec
from nearveil.region import Region

LEAST_SAMPLES = 2_000_000
_MOST_SAMPLES = 50_000_000
_MOST_FITS = 200_000


def check_witness(path: Path, external: External, effort: Effort, files: AuditFiles) -> Verdict:
    """Count a witness's event again on fresh samples, and say what that shows."""
    text = read_text(path, "witness")
    if _is_fit_witness(text):
        return _check_fit(text, effort, files)
    return _check_places(text, external, effort, files)


def _check_places(text: str, external: External, effort: Effort, files: AuditFiles) -> Verdict:
    witness = replace(witness_from_json(text), confidence=effort.confidence)
    witness = replace(witness, claim=_in_numbers(witness.claim))
    with _found_again(witness.subject, external) as (subject, intervals, words):
        witness = _with_pair_looked_up(witness, subject, intervals)
        samples = effort.samples or min(max(LEAST_SAMPLES, 2 * witness.counts.trials), _MOST_SAMPLES)
        seed = chosen_seed(effort.seed)
        with progress_bar("checking", samples) as advance:
            counted = recheck(witness, subject, samples=samples, seed=seed, progress=advance)
        fresh = replace(witness, counts=counted.counts, events_counted=1, seed=seed)
        verdict = _verdict(witness, fresh)
        lower = fresh.claim.epsilon_of(max(fresh.bound, 0.0), fresh.pair)
        document = {"pair": fresh.pair.to_dict(), "witness": json.loads(fresh.to_json())}
        _report(verdict, fresh, lower, words, effort, document)
        files.write_witness(fresh.to_json())
        files.draw(fresh, subject, intervals, _printable(headline(verdict, fresh.claim, lower)))
    return verdict


def _check_fit(text: str, effort: Effort, files: AuditFiles) -> Verdict:
    if files.picture is not None:
        raise UsageError("--picture draws places, and this witness is about a fit; leave it out")
    witness = replace(fit_witness_from_json(text), confidence=effort.confidence)
    witness = replace(witness, claim=_in_numbers(witness.claim))
    mechanism, view = mechanism_of_fit(json.loads(text).get("subject"))
    fits = effort.samples or min(max(DEFAULT_FITS, 2 * witness.counts.trials), _MOST_FITS)
    with progress_bar("fitting", fits) as advance:
        fresh = recheck_fit(witness, fit_of(mechanism, view, advance), fits=fits, seed=effort.seed)
    verdict = _verdict(witness, fresh)
    document = fit_witness_document(fresh, mechanism, view)
    words = f"the fit of dprs by {mechanism.fit_plan.method}, {mechanism.centres} centres: {VIEWS[view]}"
    _report(verdict, fresh, max(fresh.bound, 0.0), words, effort, {"witness": document})
    files.write_witness(json.dumps(document, indent=1, allow_nan=False))
    return verdict


def _in_numbers(claim: Claim) -> Claim:
    """The claim with words made of its numbers: those in the file may say something else."""
    return replace(claim, text=f"as the witness states it: {claim.notion}, {claim.amount}")


def _is_fit_witness(text: str) -> bool:
    try:
        return bool(json.loads(text)["format"] == FIT_FORMAT)
    except (ValueError, KeyError, TypeError, RecursionError):
        return False


@contextmanager
def _found_again(document: dict[str, Any], external: External) -> Iterator[tuple[Subject, Intervals | None, str]]:
    """Give what the witness is about; run no code that the file names and the user does not."""
    kind = document.get("kind")
    if kind == "mechanism":
        if external.is_given:
            raise UsageError("the witness is about a mechanism of Nearveil; leave --callable and --command out")
        mechanism = mechanism_from_spec(document)
        intervals = mechanism.current_intervals if isinstance(mechanism, DPRS) else None
        yield own_subject(mechanism), intervals, mechanism_words(mechanism, document["mechanism"])
        return
    if kind not in ("callable", "command"):
        raise DataError("the witness does not say what it is about, or is damaged; make it again")
    named = document.get(kind)
    if not external.is_given or external.document.get(kind) != named:
        raise UsageError(
            f"the witness is about a {kind}, which is not run because a file says so; if you trust it, repeat it: "
            f"--{kind} {_printable(str(named))!r}"
        )
    with external.subject(_region(document)) as subject:
        yield subject, None, str(named)


def _region(document: dict[str, Any]) -> Region:
    try:
        return Region(**document["region"])
    except (KeyError, TypeError, ValueError):
        raise DataError("the witness names no region, or is damaged; make it again") from None


def _with_pair_looked_up(witness: Witness, subject: Subject, intervals: Intervals | None) -> Witness:
    """Return the witness with its pair as it truly lies: in the region, and in one interval or not."""
    if not subject.region.contains([witness.pair.first, witness.pair.second]).all():
        raise DataError("the witness speaks of places outside the mechanism's region; audit again")
    return witness if intervals is None else replace(witness, pair=with_intervals([witness.pair], intervals)[0])


def _verdict(witness: Witness | FitWitness, fresh: Witness | FitWitness) -> Verdict:
    """Violated if the fresh counts break the claim; inconclusive if so few could not have."""
    if fresh.violates:
        return Verdict.VIOLATED
    claimed = witness.claimed_loss if isinstance(witness, Witness) else witness.claim.epsilon
    trials, delta = fresh.counts.trials, witness.claim.delta
    if witness.violates:
        # What the counts on record, were they true, would give on so many samples.
        hits, false_hits = (
            trials * count / of
            for count, of in (
                (witness.counts.hits, witness.counts.trials),
                (witness.counts.false_hits, witness.counts.false_trials),
            )
        )
        shown = float(loss_bounds(hits, trials, false_hits, trials, delta=delta, confidence=witness.confidence))
    else:
        shown = largest_loss_bound(trials, delta=delta, confidence=witness.confidence)
    return Verdict.CONSISTENT if shown > claimed else Verdict.INCONCLUSIVE


_SHOWN = {
    Verdict.VIOLATED: "The witness stands: on fresh samples too, more is lost than is claimed.",
    Verdict.CONSISTENT: (
        "The witness does not stand: this event does not break the claim on fresh samples. That is no proof that the "
        "claim is true."
    ),
    Verdict.INCONCLUSIVE: (
        "So few samples could not have shown a violation by this event, or the claim does not speak of these places."
    ),
}


def _report(
    verdict: Verdict,
    fresh: Witness | FitWitness,
    epsilon_lower: float,
    words: str,
    effort: Effort,
    document: dict[str, Any],
) -> None:
    counts, claim = fresh.counts, fresh.claim
    samples = counts.trials + counts.false_trials
    if effort.as_json:
        say_json(
            {
                "verdict": str(verdict),
                "explanation": _SHOWN[verdict],
                "claim": claim.to_dict(),
                "epsilon_lower": epsilon_lower,
                "epsilon_claimed": claim.epsilon,
                "unit": claim.unit,
                "delta": claim.delta,
                "confidence": fresh.confidence,
                "samples": samples,
                "seed": fresh.seed,
                "audited": words,
                **document,
            }
        )
        return
    found = f"{claim.shown(epsilon_lower)}, at a confidence of {confidence_words(fresh.confidence)}"
    lines = facts(checked=words, claim=claim.text, found=found, samples=f"{samples:,} fresh ones, seed {fresh.seed}")
    parts = [headline(verdict, claim, epsilon_lower), lines, paragraph(fresh.explain()), paragraph(_SHOWN[verdict])]
    say(_printable("\n\n".join(parts)))


def _printable(text: str) -> str:
    """A file from a stranger must not steer the terminal."""
    return "".join(mark if mark.isprintable() or mark == "\n" else " " for mark in text)
