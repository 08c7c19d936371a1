"""What ``nearveil audit --claim`` understands: own, paper, a file, or a few words such as ``local:1``."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

from nearveil.audit.claims import Claim, claim_from_json, own_claim, paper_claim
from nearveil.cli.json_files import read_text
from nearveil.errors import UsageError
from nearveil.privacy.guarantee import Guarantee, Notion

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
