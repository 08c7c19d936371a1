"""``nearveil audit``: a mechanism and what it is said to promise in, a verdict with a witness out."""

from __future__ import annotations

from dataclasses import replace

from nearveil.audit.auditor import DEFAULT_CONFIDENCE, Verdict
from nearveil.audit.auditor import audit as run_audit
from nearveil.cli._audit_parts import (
    Asked,
    AuditFiles,
    AuditSeedOption,
    CallableOption,
    CheckOption,
    ClaimOption,
    CommandOption,
    ConfidenceOption,
    Effort,
    External,
    PictureOption,
    PlaceOption,
    SamplesOption,
    StageName,
    StageOption,
    TimeoutOption,
    WitnessOption,
    audited,
    headline,
    leave_with,
    only_verdicts,
    read_places,
    report_document,
    report_text,
)
from nearveil.cli._options import (
    ForceOption,
    JsonOption,
    RegionOption,
    ScalingOption,
    Wish,
    chosen_region,
    takes_protection,
)
from nearveil.cli._output import progress_bar, say, say_json
from nearveil.cli.audit_check import audit_fit_stage, check_witness
from nearveil.errors import UsageError

DEFAULT_SAMPLES = 2_000_000
DEFAULT_EXTERNAL_SAMPLES = 400_000

_LEAST_CONFIDENCE, _MOST_CONFIDENCE = 0.95, 1 - 1e-9


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
    files = AuditFiles(witness=witness, picture=picture, force=force)
    effort = Effort(samples=samples, confidence=confidence, seed=seed, as_json=json)
    if check is not None:
        if wish.is_more_than_a_name or any((region, scaling, claim, place, stage is not StageName.RELEASE)):
            raise UsageError(
                "--check takes mechanism, region, claim and places from the witness; leave these options out"
            )
        leave_with(check_witness(check, External(function, command, timeout), effort, files, trusted=wish.mechanism))
    if place and stage is StageName.FIT:
        raise UsageError("--place is for --stage release: a fit is of all people's places; leave it out")
    box = chosen_region(region, scaling, wish.intervals)
    asked = Asked(
        wish=wish,
        region=box,
        places=read_places(place or (), box),
        claim=claim,
        external=External(function, command, timeout),
    )
    leave_with((_audit_release if stage is StageName.RELEASE else audit_fit_stage)(asked, effort, files))


def _audit_release(asked: Asked, effort: Effort, files: AuditFiles) -> Verdict:
    samples = effort.samples or (DEFAULT_EXTERNAL_SAMPLES if asked.external.is_given else DEFAULT_SAMPLES)
    with audited(asked) as one:
        with progress_bar("auditing", samples) as advance:
            report = run_audit(
                one.subject,
                one.claim,
                one.pairs,
                samples=samples,
                confidence=effort.confidence,
                seed=effort.seed,
                search=not asked.places,
                progress=advance,
            )
        if report.witness is not None:
            report = replace(report, witness=replace(report.witness, subject=one.document))
        if effort.as_json:
            say_json(report_document(report, one.words))
        else:
            say(report_text(report, one.words))
            if files.picture is None and report.witness is not None:
                say("To see it: --picture audit.png")
        # Last, so that a file that cannot be written does not lose the verdict.
        files.write_witness(None if report.witness is None else report.witness.to_json())
        title = headline(report.verdict, report.claim, report.epsilon_lower)
        files.draw(report.witness, one.subject, one.intervals, title)
    return report.verdict
