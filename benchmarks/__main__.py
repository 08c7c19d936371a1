"""``make bench``: Nearveil beside its peers, in one run on one machine: ratios as a table, as JSON and as a picture."""

import argparse
import json
import sys
import time
import traceback
from dataclasses import asdict
from pathlib import Path

from benchmarks import end_to_end, k_means, live_index, veil
from benchmarks.measure import Row, draw_ratios, machine, table

COMPARISONS = {
    "start-up": end_to_end.compare_start_up,
    "end-to-end": end_to_end.compare,
    "veil": veil.compare,
    "k-means": k_means.compare,
    "index": live_index.compare,
}


def main() -> None:
    """Measure what was asked for, and leave with 1 if something could not be measured."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("--only", action="append", choices=COMPARISONS, help="only this; may be repeated")
    parser.add_argument("--scale", type=float, default=1.0, help="sizes, as a multiple of the usual ones")
    parser.add_argument("--rounds", type=int, default=5, help="how often each contender works")
    parser.add_argument("--out", type=Path, default=Path("bench"), help="folder for bench.json and ratios.png")
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    document: dict[str, object] = {
        "started_utc": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        "machine": machine(),
    }
    rows: list[Row] = []
    failed = []
    for name in options.only or COMPARISONS:
        print(f"{name} ...", file=sys.stderr, flush=True)
        try:
            rows += COMPARISONS[name](options.scale, options.rounds)
        except Exception:  # the other comparisons are still worth having
            traceback.print_exc()
            failed.append(name)
        # After each, so that an interruption loses little.
        found = [asdict(row) | {"ratio": row.ratio, "median_ratio": row.median_ratio} for row in rows]
        document |= {"rows": found, "failed": failed}
        (options.out / "bench.json").write_text(json.dumps(document, indent=2), encoding="utf-8")
    if rows:
        draw_ratios(rows, options.out / "ratios.png")
        print(table(rows))
    sys.exit(bool(failed))


if __name__ == "__main__":
    main()
