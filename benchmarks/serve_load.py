"""``python -m benchmarks.serve_load``: the service under load beside a Starlette route that does nothing.

A million published people, 64 connections that ask for the ten nearest, a thousand reports a second, and one border of
an epoch within the run. The bare route is measured before and after, on the same machine in the same minutes.

``--workers 1 2`` compares numbers of workers on a private PostGIS instead, by turns. wrk then sends the same questions
again and again over a few connections, so that it takes little of the machine that it shares with the workers.
With ``--pipelined 8`` it takes still less.

``--filters`` asks one service by turns: without filters, with ids left out, and for people with tags. It also says how
long the start takes until everybody is on the map.
"""

import argparse
import contextlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from dataclasses import asdict
from pathlib import Path
from statistics import median
from typing import Any

from tests.services.postgres import private_database

from benchmarks.serving.asking import ask, write_script
from benchmarks.serving.people import PLATFORM_KEY_FILE, fill, person_id, prepared_store, tag_people
from benchmarks.serving.servers import Server, bare_server, nearveil_server
from nearveil.nearby.publishing.keys import new_keys, write_keys
from nearveil.server.settings import Settings

EPOCHS_PER_WINDOW = 1000
WARM_UP_S = 5


def main() -> None:
    """Measure and print JSON."""
    options = _options()
    epoch, window = f"{options.seconds}s", f"{options.seconds * EPOCHS_PER_WINDOW}s"
    if options.workers:
        found = compare_workers(options)
    elif options.filters:
        found = compare_filters(options, epoch, window)
    else:
        found = compare_with_bare(options, epoch, window)
    print(json.dumps(found, indent=1))


def compare_with_bare(options: argparse.Namespace, epoch: str, window: str) -> dict[str, Any]:
    """Ask the service while reports come in, and the bare route before and after."""
    store = prepared_store(options.people, epoch, window)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        # A run changes the store.
        shutil.copytree(store, folder / "store")
        # The disk is to be busy with reports, not with the copy.
        os.sync()
        key = (store / PLATFORM_KEY_FILE).read_text(encoding="utf-8").strip()
        write_script(folder / "ask.lua", key)
        database, log_file = folder / "store" / "nearveil.db", folder / "serve.log"
        with bare_server() as bare, nearveil_server(database, key, epoch, window, log_file) as service:
            return _measure(options, folder / "ask.lua", bare, service, store / PLATFORM_KEY_FILE)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--people", type=int, default=1_000_000)
    parser.add_argument("--seconds", type=int, default=60, help="how long the service is asked; also its epoch")
    parser.add_argument("--bare-seconds", type=int, default=15, help="how long the bare route is asked, twice")
    parser.add_argument("--reports-per-s", type=float, default=1000.0)
    parser.add_argument("--workers", type=int, nargs="+", help="numbers of workers to compare on PostGIS, such as 1 2")
    parser.add_argument("--connections", type=int, default=16, help="of wrk, for --workers")
    parser.add_argument("--pipelined", type=int, default=1, help="questions that wrk sends at once, for --workers")
    parser.add_argument("--filters", action="store_true", help="compare questions with filters and without")
    parser.add_argument("--rounds", type=int, default=3, help="how often each number of workers, or filter, is asked")
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


def _asked(server: Server, script: Path, seconds: int, connections: int = 64) -> dict[str, float]:
    before_s = server.cpu_s()
    asked = ask(server.port, script, seconds, connections)
    # How busy the server was tells a slow server from a machine that is busy with something else.
    cores = (server.cpu_s() - before_s) / asked.seconds
    return asdict(asked) | {"per_s": round(asked.per_s, 1), "cores": round(cores, 2)}


def compare_filters(options: argparse.Namespace, epoch: str, window: str) -> dict[str, Any]:
    """Ask one service by turns, with filters and without."""
    store = prepared_store(options.people, epoch, window)
    key = (store / PLATFORM_KEY_FILE).read_text(encoding="utf-8").strip()
    kinds: dict[str, dict[str, object]] = {
        "without filters": {},
        "20 ids left out": {"exclude": [person_id(number) for number in range(20)]},
        "a tag that half have": {"only": [["half"]]},
        "a tag that 1 in 100 have": {"only": [["few"]]},
        "either of two tags, 20 ids left out": {
            "only": [["half", "few"]],
            "exclude": [person_id(number) for number in range(20)],
        },
    }
    rows: dict[str, list[dict[str, float]]] = {kind: [] for kind in kinds}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        shutil.copytree(store, folder / "store")
        database = folder / "store" / "nearveil.db"
        tag_people(database, "half", "few")
        os.sync()
        for number, filters in enumerate(kinds.values()):
            write_script(folder / f"{number}.lua", key, filters=filters)
        started = time.monotonic()
        with nearveil_server(database, key, epoch, window, folder / "serve.log") as service:
            start_s = time.monotonic() - started
            ask(service.port, folder / "0.lua", WARM_UP_S)
            for turn in range(options.rounds):
                for number, kind in list(enumerate(kinds))[:: -1 if turn % 2 else 1]:
                    rows[kind].append(_asked(service, folder / f"{number}.lua", max(options.seconds // 12, 1)))
            peak_gb = round(service.peak_bytes() / 1e9, 3)
    plain = rows["without filters"]
    return {
        "people": options.people,
        "start_s": round(start_s, 2),
        "server_peak_gb": peak_gb,
        "rows": rows,
        "times_the_time_without": {
            kind: round(median(other["per_s"] / one["per_s"] for one, other in zip(some, plain, strict=True)), 2)
            for kind, some in rows.items()
        },
    }


def compare_workers(options: argparse.Namespace) -> dict[str, Any]:
    """Ask services with different numbers of workers by turns; they run at the same time, and one is asked."""
    epoch, window = "1h", "30d"
    with tempfile.TemporaryDirectory() as name, private_database() as address, contextlib.ExitStack() as stack:
        folder = Path(name)
        write_keys(folder / "keys.json", new_keys())
        keys = ("--keys", str(folder / "keys.json"))
        environ = {"NEARVEIL_STORE": address}
        key = fill(Settings.load(environ=environ, options={"keys": keys[1], "region": "san-francisco"}), options.people)
        write_script(folder / "ask.lua", key, options.pipelined, is_pipelined=True)
        servers = {
            workers: stack.enter_context(
                nearveil_server(
                    address, key, epoch, window, folder / f"{workers}.log", *keys, "--workers", str(workers)
                )
            )
            for workers in options.workers
        }
        rows: dict[int, list[dict[str, float]]] = {workers: [] for workers in servers}
        for server in servers.values():
            ask(server.port, folder / "ask.lua", WARM_UP_S, options.connections)
        for turn in range(options.rounds):
            for workers, server in list(servers.items())[:: -1 if turn % 2 else 1]:
                rows[workers].append(_asked(server, folder / "ask.lua", options.seconds, options.connections))
    first = rows[options.workers[0]]
    return {
        "people": options.people,
        "rows": rows,
        # By rounds: the speed of a rented machine changes from minute to minute.
        "times_the_first": {
            workers: sorted(round(one["per_s"] / other["per_s"], 2) for one, other in zip(some, first, strict=True))
            for workers, some in rows.items()
        },
        "best": {workers: max(some, key=lambda row: row["per_s"]) for workers, some in rows.items()},
    }


if __name__ == "__main__":
    main()
