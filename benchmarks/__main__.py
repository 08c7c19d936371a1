"""``make bench``: Nearveil beside its peers, in one run on one machine: ratios in print, as JSON and as pictures."""

import argparse
import json
import sys
import time
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from rich.console import Console

from benchmarks.comparisons import (
    among,
    attacks,
    end_to_end,
    every_scale,
    filters,
    growth,
    k_means,
    live_index,
    randomness,
    sampling,
    start_up,
)
from benchmarks.measuring.machine import describe_machine, machine_line
from benchmarks.measuring.pictures import draw_growth, draw_ratios
from benchmarks.measuring.results import MET, Effort, Result

COMPARISONS: dict[str, tuple[str, Callable[[Effort], Iterator[Result]]]] = {
    "start-up": ("Starting the command", start_up.compare),
    "randomness": ("Secure randomness", randomness.compare),
    "sampling": ("Sampling in discs", sampling.compare),
    "among": ("Hiding among people", among.compare),
    "every-scale": ("Sampling at every scale", every_scale.compare),
    "k-means": ("Private k-means", k_means.compare),
    "index": ("The live index", live_index.compare),
    "filters": ("Questions with filters", filters.compare),
    "end-to-end": ("nearveil protect on files", end_to_end.compare),
    "attacks": ("Attacks", attacks.compare),
    "growth": ("Growth", growth.compare),
}


def main() -> None:
    """Measure what was asked for, and leave with 1 if something could not be measured."""
    options = _options()
    options.out.mkdir(parents=True, exist_ok=True)
    machine = describe_machine()
    print(machine_line(machine), flush=True)
    document: dict[str, Any] = {
        "format": "nearveil-benchmarks",
        "version": 1,
        "started_utc": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        "quick": options.quick,
        "machine": machine,
        "comparisons": {},
        "failed": [],
    }
    results: list[Result] = []
    for name in options.only or COMPARISONS:
        found, failed = _measure(name, options)
        results += found
        document["comparisons"][name] = [result.document() for result in found]
        document["failed"] += [name] if failed else []
        # After each, so that what was measured is kept if a later one is interrupted.
        (options.out / "bench.json").write_text(json.dumps(document, indent=2, ensure_ascii=False), encoding="utf-8")
        draw_ratios(results, options.out / "ratios.png", machine_line(machine))
        draw_growth(results, options.out / "growth.png")
    _conclude(results, options.out)
    sys.exit(1 if document["failed"] else 0)


def _measure(name: str, options: argparse.Namespace) -> tuple[list[Result], bool]:
    title, compare = COMPARISONS[name]
    console = Console(stderr=True)
    found: list[Result] = []
    print(f"\n{title} ({name})", flush=True)
    with console.status(title) as status:
        effort = Effort(quick=options.quick, large=options.large, tell=lambda now: status.update(f"{title}: {now}"))
        try:
            for result in compare(effort):
                found.append(result)
                print(f"  {result.line()}", flush=True)
        except Exception:  # the other comparisons are still worth having
            traceback.print_exc()
            return found, True
    return found, False


def _conclude(results: list[Result], folder: Path) -> None:
    verdicts = [result.verdict for result in results if result.verdict]
    said = f"{verdicts.count(MET)} of {len(verdicts)} limits are met; " if verdicts else ""
    print(f"\n{said}written to {folder}/", flush=True)
    for result in results:
        if result.verdict not in {None, MET}:
            print(f"  {result.line()}", flush=True)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument(
        "--only", metavar="NAME", action="append", choices=COMPARISONS,
        help=f"measure only this; may be repeated: {', '.join(COMPARISONS)}",
    )  # fmt: skip
    parser.add_argument("--quick", action="store_true", help="small sizes and few rounds, in a few minutes")
    parser.add_argument("--large", action="store_true", help="also a hundred million rows and people")
    parser.add_argument("--out", type=Path, default=Path("bench"), help="folder for bench.json and the pictures")
    return parser.parse_args()


if __name__ == "__main__":
    main()
