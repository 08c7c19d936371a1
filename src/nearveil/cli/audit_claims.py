"""What ``nearveil audit --claim`` understands: own, paper, a file, or a few words such as ``local:1``."""

from __future__ import annotations

import re
from pathlib import Path

from nearveil.audit.claim import Claim, claim_from_json, own_claim, paper_claim
from nearveil.cli.json_files import read_text
from nearveil.errors import UsageError
from nearveil.privacy.guarantee import Guarantee, Notion

OWN, PAPER = "own", "paper"

_WORDS = re.compile(r"(local|interval|metric|central):([^:/]+)(/km|/m)?(?::([^:/]+))?")
_FORMS = "a file, or words such as local:1, interval:1, metric:0.004 (per metre), metric:4/km or local:1:1e-6 (a delta)"


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
    path = Path(text)
    if not path.suffix and not path.exists():
        raise UsageError(f"--claim takes own, paper, {_FORMS}")
    return claim_from_json(read_text(path, "claim"))


def _claim_in_words(words: re.Match[str]) -> Claim:
    notion = Notion(words[1])
    if words[3] and notion is not Notion.METRIC:
        raise UsageError(f"a claim that is {notion} is not per distance; write {notion}:1")
    try:
        epsilon, delta = float(words[2]), float(words[4] or 0.0)
    except ValueError:
        raise UsageError(f"--claim takes numbers behind the notion; give {_FORMS}") from None
    if words[3] == "/km":
        epsilon /= 1000
    per = " per metre" if notion is Notion.METRIC else ""
    text = f"{notion}, epsilon = {epsilon:.6g}{per}" + (f", delta = {delta:.3g}" if delta else "")
    return Claim(notion, epsilon, delta, text)
