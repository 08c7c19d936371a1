"""Check a witness on fresh samples, without trusting what it states and without running code that it names."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from nearveil.auditing.auditor import DEFAULT_CONFIDENCE, Verdict
from nearveil.auditing.bounds import largest_loss_bound, loss_bounds
from nearveil.auditing.external import DEFAULT_TIMEOUT_S, CommandSubject, ModuleSubject, closed_after
from nearveil.auditing.fit import DEFAULT_FITS, VIEWS, describe_fit, fit_from_dict, fit_of
from nearveil.auditing.fit_witness import FitWitness, fit_witness_from_json, recheck_fit
from nearveil.auditing.pair_search import with_learned
from nearveil.auditing.spec import mechanism_from_spec
from nearveil.auditing.subjects import Subject, own_mechanism, own_subject
from nearveil.auditing.witness import Witness, recheck, witness_from_json
from nearveil.errors import DataError, UsageError
from nearveil.io.atomic import read_text
from nearveil.mechanisms.base import Learned
from nearveil.mechanisms.cells import Cells
from nearveil.privacy.guarantee import PrivacyDefinition
from nearveil.region import Region
from nearveil.types import ProgressBar, no_bar

LEAST_SAMPLES = 2_000_000
_MOST_SAMPLES = 50_000_000
_MOST_FITS = 200_000


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class WitnessCheck:
    """What fresh samples say about a witness.

    Attributes
    ----------
    verdict : Verdict
        Violated if the fresh counts break the claim; inconclusive if so few could not have.
    witness : Witness or FitWitness
        The same event with the fresh counts, and the seed that they can be drawn by again.
    audited : str
        What was drawn from.
    subject : Subject or None
        The same, to draw from; None for a fit.
    learned : Intervals, Cells or None
        The intervals of the mechanism, or the cells between which steps were counted.
    """

    verdict: Verdict
    witness: Witness | FitWitness
    audited: str
    subject: Subject | None = None
    learned: Learned | None = None

    @property
    def epsilon_lower(self) -> float:
        """What epsilon is at least, with the stated confidence, in the unit of the claim; 0 if nothing was shown."""
        witness, bound = self.witness, max(self.witness.bound, 0.0)
        return bound if isinstance(witness, FitWitness) else witness.claim.epsilon_of(bound, witness.pair)

    @property
    def samples(self) -> int:
        """How many fresh samples, or fits, there were in all."""
        return self.witness.counts.trials + self.witness.counts.false_trials


def check_witness(
    witness: Witness | FitWitness | str | Path,
    *,
    mechanism: str | None = None,
    function: str | None = None,
    command: str | None = None,
    timeout_s: float = DEFAULT_TIMEOUT_S,
    cells: Cells | None = None,
    samples: int | None = None,
    confidence: float = DEFAULT_CONFIDENCE,
    seed: int | None = None,
    progress: ProgressBar = no_bar,
) -> WitnessCheck:
    """Count a witness's event again on fresh samples, and say what that shows.

    Parameters
    ----------
    witness : Witness, FitWitness or path
        The witness, or a file that ``nearveil audit --witness`` wrote.
    mechanism : str, optional
        Somebody else's class that the witness is about, as ``file.py:Class``: none is run because a file says so.
    function, command : str, optional
        What the witness is about, repeated, where that is a function or a command: neither is run because a file says
        so. Nearveil's own mechanisms are rebuilt from the witness.
    timeout_s : float
        Seconds that one call of the function or the command may take.
    cells : Cells, optional
        The cells that an elastic claim about a function or a command counts steps between. The witness names them by
        their digest, and other cells are refused.
    samples : int, optional
        Outputs to draw in all, or fits to make; by default twice as many as the witness has, within reason.
    confidence : float
        Probability that the bound holds; that of the witness is not used.

    Examples
    --------
    >>> import nearveil as nv
    >>> report = nv.audit(nv.PlanarLaplace(noise_m=500), "metric:2/km", samples=100_000, seed=1)
    >>> check_witness(report.witness, samples=100_000, seed=2).verdict.value
    'violated'
    """
    if isinstance(witness, str | Path):
        witness = read_witness(witness)
    # Only the numbers of the claim count: the text in the file may say something else.
    text = f"as the witness states it: {witness.claim.definition}, {witness.claim.amount}"
    witness = replace(witness, confidence=confidence, claim=replace(witness.claim, text=text))
    if isinstance(witness, FitWitness):
        return _check_fit(witness, samples, seed, progress)
    found, audited = _found_again(witness.subject, mechanism, {"callable": function, "command": command}, timeout_s)
    if not found.region.contains([witness.pair.first, witness.pair.second]).all():
        raise DataError("the witness speaks of places outside the mechanism's region; audit again")
    own = own_mechanism(found)
    learned = None if own is None else own.learned
    if witness.claim.definition is PrivacyDefinition.ELASTIC and not isinstance(learned, Cells):
        learned = _given_cells(witness, found, cells)
    # Whether the places share an interval, and steps between them, are computed, not taken from the file.
    (pair,) = with_learned([witness.pair], learned)
    witness = replace(witness, pair=pair)
    number = samples or min(max(LEAST_SAMPLES, 2 * witness.counts.trials), _MOST_SAMPLES)
    with closed_after(found), progress("checking", number) as advance:
        fresh = recheck(witness, found, samples=number, seed=seed, progress=advance)
    verdict = _verdict(witness, fresh)
    return WitnessCheck(verdict=verdict, witness=fresh, audited=audited, subject=found, learned=learned)


def read_witness(path: str | Path) -> Witness | FitWitness:
    """Read a witness, against what is published or against a fit."""
    text = read_text(Path(path), "witness")
    try:
        is_of_fit = bool(json.loads(text)["format"] == FitWitness.format)
    except (ValueError, KeyError, TypeError, RecursionError):
        is_of_fit = False
    return fit_witness_from_json(text) if is_of_fit else witness_from_json(text)


def _check_fit(witness: FitWitness, samples: int | None, seed: int | None, progress: ProgressBar) -> WitnessCheck:
    mechanism, view = fit_from_dict(witness.subject)
    fits = samples or min(max(DEFAULT_FITS, 2 * witness.counts.trials), _MOST_FITS)
    with progress("fitting", fits) as advance:
        fresh = recheck_fit(witness, fit_of(mechanism, view, advance), fits=fits, seed=seed)
    audited = f"{describe_fit(mechanism)}: {VIEWS[view]}"
    return WitnessCheck(verdict=_verdict(witness, fresh), witness=fresh, audited=audited)


def _found_again(
    document: dict[str, Any], trusted: str | None, given: dict[str, str | None], timeout_s: float
) -> tuple[Subject, str]:
    """Return what the witness is about and what it is called; run no code that the file names and the user does not."""
    kind = document.get("kind")
    if kind == "mechanism":
        if any(given.values()):
            raise UsageError("the witness is about a mechanism of Nearveil; leave the function or the command out")
        mechanism = mechanism_from_spec(document, trusted=trusted)
        box = _region_of(document) if "audited_in" in document else None
        return own_subject(mechanism, box), mechanism.describe()
    if kind not in ("callable", "command"):
        raise DataError("the witness does not say what it is about, or is damaged; make it again")
    named = document.get(kind)
    if named is None or given[kind] != named:
        raise UsageError(
            f"the witness is about a {kind}, which is not run because a file says so; if you trust it, repeat it: "
            f"--{kind} {printable(str(named))!r}"
        )
    make = ModuleSubject if kind == "callable" else CommandSubject
    return make(named, _region_of(document), timeout_s), named


def _region_of(document: dict[str, Any]) -> Region:
    try:
        return Region(**document["audited_in" if "audited_in" in document else "region"])
    except (KeyError, TypeError, ValueError):
        raise DataError("the witness names no region, or is damaged; make it again") from None


def printable(text: str) -> str:
    """Return text from a stranger's file without what could steer a terminal."""
    return "".join(mark if mark.isprintable() or mark == "\n" else " " for mark in text)


def _given_cells(witness: Witness, subject: Subject, cells: Cells | None) -> Cells:
    """Return the cells that steps are counted between, which are given for a mechanism that has none."""
    if cells is None:
        raise UsageError("the witness is about an elastic claim, which counts steps between cells; give the cells")
    if cells.region != subject.region:
        raise UsageError("the cells are of another region than the witness; give those of its region")
    if witness.cells is not None and cells.digest != witness.cells:
        raise UsageError("the witness counts steps between other cells than these; give the cells that the audit had")
    return cells


def _verdict(witness: Witness | FitWitness, fresh: Witness | FitWitness) -> Verdict:
    if fresh.violates:
        return Verdict.VIOLATED
    counts, trials, delta = witness.counts, fresh.counts.trials, witness.claim.delta
    if witness.violates:
        # What the recorded counts, if true, would give on this number of samples.
        hits, false_hits = trials * counts.hits / counts.trials, trials * counts.false_hits / counts.false_trials
        shown = float(loss_bounds(hits, trials, false_hits, trials, delta=delta, confidence=witness.confidence))
    else:
        shown = largest_loss_bound(trials, delta=delta, confidence=witness.confidence)
    return Verdict.CONSISTENT if shown > witness.claimed_loss else Verdict.INCONCLUSIVE
