"""``python -m benchmarks.serve_load``: the service under load beside a Starlette route that does nothing.

A million published people, 64 connections that ask for the ten nearest, a thousand reports a second, and one border of
an epoch within the run. The bare route is measured before and after, on the same machine in the same minutes.
"""

import argparse
import json
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

from benchmarks.serving.asking import ask, write_script
from benchmarks.serving.people import PLATFORM_KEY_FILE, prepared_store
from benchmarks.serving.servers import Server, bare_server, nearveil_server

LEAST_SHARE = 0.6
MOST_P99_MS = 20.0
MOST_REPORT_P99_MS = 100.0
MOST_GB = 1.5
EPOCHS_PER_WINDOW = 1000
WARM_UP_S = 5


def main() -> None:
    """Measure, print and write."""
    options = _options()
    epoch, window = f"{options.seconds}s", f"{options.seconds * EPOCHS_PER_WINDOW}s"
    store = prepared_store(options.people, epoch, window)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        # A run changes the store.
        shutil.copytree(store, folder / "store")
        key = (store / PLATFORM_KEY_FILE).read_text(encoding="utf-8").strip()
        write_script(folder / "ask.lua", key)
        database, log_file = folder / "store" / "nearveil.db", folder / "serve.log"
        with bare_server() as bare, nearveil_server(database, key, epoch, window, log_file) as service:
            found = _measure(options, folder / "ask.lua", bare, service, store / PLATFORM_KEY_FILE)
    for line in _lines(found):
        print(line)
    if options.json:
        options.json.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--people", type=int, default=1_000_000)
    parser.add_argument("--seconds", type=int, default=60, help="how long the service is asked; also its epoch")
    parser.add_argument("--bare-seconds", type=int, default=15, help="how long the bare route is asked, twice")
    parser.add_argument("--reports-per-s", type=float, default=1000.0)
    parser.add_argument("--json", type=Path, help="file to write the results to")
    return parser.parse_args()


def _measure(
    options: argparse.Namespace, script: Path, bare: Server, service: Server, key_file: Path
) -> dict[str, Any]:
    for server in (bare, service):
        ask(server.port, script, WARM_UP_S)
    bare_rows = [_asked(bare, script, options.bare_seconds)]
    # Started in the middle of an epoch as long as the run, so that one border falls in the middle of the run.
    time.sleep((options.seconds / 2 - time.time()) % options.seconds)
    started = time.time()
    arguments = [service.port, key_file, options.people, options.reports_per_s, options.seconds, options.seconds]
    sender = [sys.executable, "-m", "benchmarks.serving.report_sender", *map(str, arguments)]
    with subprocess.Popen(sender, stdout=subprocess.PIPE, text=True) as reporting:
        row = _asked(service, script, options.seconds)
        reports = json.loads(reporting.stdout.read() if reporting.stdout else "")
    borders = int((started + options.seconds) // options.seconds) - int(started // options.seconds)
    bare_rows.append(_asked(bare, script, options.bare_seconds))
    return {
        "people": options.people,
        "bare": bare_rows,
        "service": row,
        "share_of_bare": round(len(bare_rows) * row["per_s"] / sum(other["per_s"] for other in bare_rows), 3),
        "reports": reports,
        "borders": borders,
        "server_peak_gb": round(service.peak_bytes() / 1e9, 3),
    }


def _asked(server: Server, script: Path, seconds: int) -> dict[str, float]:
    before_s = server.cpu_s()
    asked = ask(server.port, script, seconds)
    # How busy the server was tells a slow server from a machine that is busy with something else.
    cores = (server.cpu_s() - before_s) / asked.seconds
    return asdict(asked) | {"per_s": round(asked.per_s, 1), "cores": round(cores, 2)}


def _lines(found: dict[str, Any]) -> Iterator[str]:
    bare = " and ".join(f"{row['per_s']:,.0f}" for row in found["bare"])
    service, reports = found["service"], found["reports"]
    busy = " and ".join(f"{row['cores']:.2f}" for row in found["bare"])
    yield (
        f"  bare Starlette route      {bare} requests/s, p99 {max(row['p99_ms'] for row in found['bare']):.1f} ms, "
        f"{busy} cores"
    )
    yield (
        f"  POST /v1/nearby           {service['per_s']:,.0f} requests/s, {found['share_of_bare']:.0%} of bare "
        f"(at least {LEAST_SHARE:.0%}), {found['people']:,} people, k = 10, {found['borders']} border inside"
    )
    yield (
        f"  its latency               p50 {service['p50_ms']:.1f} ms, p99 {service['p99_ms']:.1f} ms "
        f"(under {MOST_P99_MS:g}), 99.9 % {service['p999_ms']:.1f} ms, max {service['max_ms']:.1f} ms, "
        f"{service['errors']} errors, {service['cores']:.2f} cores"
    )
    p50, p99, slowest = reports["p50_p99_max_ms"]
    yield (
        f"  reports                   {reports['acknowledged_per_s']:,.0f} acknowledged/s, p50 {p50} ms, p99 {p99} ms "
        f"(under {MOST_REPORT_P99_MS:g}), max {slowest} ms, statuses {reports['statuses']}"
    )
    between = ", ".join(
        f"{name} {value} ms"
        for name, value in zip(("p50", "p99", "max"), reports["between_boundaries_p50_p99_max_ms"], strict=False)
    )
    yield f"  away from the boundary    {between}"
    yield f"  memory of the server      {found['server_peak_gb']:.2f} GB at most (under {MOST_GB:g})"


if __name__ == "__main__":
    main()
