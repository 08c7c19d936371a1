"""What a service shows to whoever reports for a person, and what of it tells right from wrong guesses."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import httpx
from scipy import stats

_COUNTS_TIME = re.compile(r"_seconds|_created$")
_IGNORED_HEADERS = {"date", "age", "x-request-id"}


def answer_features(answer: httpx.Response) -> dict[str, str]:
    """Return what can be told from an answer to a report, but for the receipt and the moment."""
    found = {f"header {name}": value for name, value in answer.headers.items() if name not in _IGNORED_HEADERS}
    found |= {"status code": str(answer.status_code), "length": str(len(answer.content))}
    for name, value in flattened(answer.json()).items():
        if name in ("receipt", "publishes_at"):
            found[f"answer {name}"] = f"{type(value).__name__} of {len(str(value))}"
        else:
            found[f"answer {name}"] = str(value)
    return found


def flattened(document: Any, prefix: str = "") -> dict[str, Any]:
    """Return the values of a JSON document by their paths."""
    if isinstance(document, Mapping):
        parts = [flattened(value, f"{prefix}{name}.") for name, value in document.items()]
        return {name: value for part in parts for name, value in part.items()} or {prefix + "empty": True}
    if isinstance(document, list):
        return {f"{prefix}length": len(document)}
    return {prefix.removesuffix("."): document}


def metric_values(text: str) -> dict[str, float]:
    """Return the numbers of metrics by name and labels, but for those that count time."""
    found = {}
    for line in text.splitlines():
        name, _, value = line.rpartition(" ")
        if name and not line.startswith("#") and not _COUNTS_TIME.search(name.partition("{")[0]):
            found[name] = float(value)
    return found


def changes(before: Mapping[str, Any], after: Mapping[str, Any]) -> dict[str, str]:
    """Return what changed between two looks: by how much numbers did, and of all else that it did."""
    found = {}
    for name in before.keys() | after.keys():
        old, new = before.get(name), after.get(name)
        if old == new:
            continue
        if isinstance(old, int | float) and isinstance(new, int | float):
            found[name] = f"{new - old:+g}"
        else:
            found[name] = "gone" if new is None else "new" if old is None else "other"
    return found


class Telltales:
    """What tells right from wrong guesses: learnt from accounts whose places the attacker knows.

    Only features count whose values differ beyond chance, by Fisher's exact test at one in a thousand for all together.
    So from a service that tells nothing, nothing is learnt.
    """

    def __init__(self, seen: Sequence[tuple[bool, Mapping[str, str]]]) -> None:
        right, wrong = ([features for is_right, features in seen if is_right is wanted] for wanted in (True, False))
        pairs = {(name, features.get(name)) for _, features in seen for name in features}
        self.names = tuple(
            sorted({name for name, value in pairs if _differs(name, value, right, wrong, 0.001 / max(len(pairs), 1))})
        )
        self._right, self._wrong = (Counter(self._of(features) for features in part) for part in (right, wrong))

    def likelihood(self, features: Mapping[str, str]) -> tuple[float, float]:
        """How likely this is after a right and after a wrong guess."""
        if not self.names:
            return 1.0, 1.0
        kind = self._of(features)
        return tuple((part[kind] + 0.5) / (part.total() + 1) for part in (self._right, self._wrong))  # type: ignore[return-value]

    def _of(self, features: Mapping[str, str]) -> tuple[str | None, ...]:
        return tuple(features.get(name) for name in self.names)


def _differs(
    name: str, value: str | None, right: Sequence[Mapping[str, str]], wrong: Sequence[Mapping[str, str]], level: float
) -> bool:
    counts = [sum(features.get(name) == value for features in part) for part in (right, wrong)]
    table = [[count, len(part) - count] for count, part in zip(counts, (right, wrong), strict=True)]
    return bool(stats.fisher_exact(table).pvalue < level)
