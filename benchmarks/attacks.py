"""Attacks: 250 of them against a limit, and a list from the index against scipy's KD-tree."""

import json
import subprocess
import time

import numpy as np
from scipy.spatial import cKDTree

from benchmarks.command import COMMAND
from nearveil.io.datasets import DatasetName, load_dataset
from nearveil.nearby.index import NearbyIndex

ATTACKS_LIMIT_S = 60.0
QUERIES = 5000


def measure_attacks() -> list[str]:
    """250 adaptive attacks on 25,000 people in 60 s, as a person runs them."""
    return [_adaptive(), _index()]


def _adaptive() -> str:
    arguments = ["attack", "--dataset", "gaussian", "--attack", "adaptive", "--json"]
    started = time.perf_counter()
    found = subprocess.run([*COMMAND, *arguments], capture_output=True, text=True, check=True)
    seconds = time.perf_counter() - started
    row = json.loads(found.stdout)[0]
    assert row["acc"] == 1.0
    return (
        f"  250 adaptive attacks on 25,000 people {seconds:6.1f} s (limit {ATTACKS_LIMIT_S:g} s, "
        f"{seconds / ATTACKS_LIMIT_S:.2f}); {row['queries']:.1f} questions each"
    )


def _index() -> str:
    dataset = load_dataset(DatasetName.GAUSSIAN)
    places = dataset.region.to_metres(dataset.places)
    index, tree = NearbyIndex(dataset.region.half_extent_m, range(len(places)), places), cKDTree(places)
    queries = places[np.random.default_rng(1).integers(len(places), size=QUERIES)] + 1.0
    index.ranked(queries[0], 10)
    best = {"index": np.inf, "tree": np.inf}
    for _ in range(3):
        for name, ask in (("index", lambda q: index.ranked(q, 10)), ("tree", lambda q: tree.query(q, k=10))):
            started = time.perf_counter()
            for query in queries:
                ask(query)
            best[name] = min(best[name], time.perf_counter() - started)
    microseconds, ratio = 1e6 * best["index"] / QUERIES, best["tree"] / best["index"]
    return f"  a list of 10 from the live index {microseconds:9.1f} µs, {ratio:.1f} times as fast as scipy's KD-tree"
