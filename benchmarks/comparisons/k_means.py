"""Private k-means beside scikit-learn's, which is not private, and diffprivlib's."""

from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
from sklearn.cluster import KMeans

from benchmarks.measuring.people import REGION, people_in_degrees
from benchmarks.measuring.results import Absent, Beside, Effort, Result
from benchmarks.measuring.timing import Contender, in_turns
from benchmarks.peers.diffprivlib_k_means import DiffprivlibKMeans, NoDiffprivlibError
from nearveil import build_pic_intervals
from nearveil.types import FloatArray

CENTRES, ROUNDS, SCALE = 1000, 12, 34.5
LEAST_SPEED_SKLEARN, LEAST_SPEED_DIFFPRIVLIB = 2.0, 20.0
US, SKLEARN, DIFFPRIVLIB = "Nearveil", "scikit-learn's, not private", "diffprivlib's"


def compare(effort: Effort) -> Iterator[Result]:
    """Compare whole fits: ours starts from degrees, the others from the square."""
    yield _beside_sklearn(effort, effort.of(1_000_000, 100_000))
    yield _beside_diffprivlib(effort, effort.of(100_000, 10_000))


def _ours(count: int) -> Contender:
    people = people_in_degrees(count)
    return Contender(
        US, lambda: build_pic_intervals(people, region=REGION, scale=SCALE, centres=CENTRES, rounds=ROUNDS)
    )


def _square(count: int) -> FloatArray:
    return REGION.to_square(people_in_degrees(count))


def _what(count: int) -> str:
    return f"private k-means, {CENTRES:,} centres, {ROUNDS} rounds, {count:,} points"


def _beside_sklearn(effort: Effort, count: int) -> Result:
    x = _square(count)

    def fit() -> object:
        return KMeans(CENTRES, init="random", n_init=1, max_iter=ROUNDS, tol=0, algorithm="lloyd").fit(x)

    times = in_turns([_ours(count), Contender(SKLEARN, fit, warm_up=False)], effort.of(3, 1), effort.tell)
    return Beside(
        what=_what(count), peer=SKLEARN, ours=times[US], theirs=times[SKLEARN], unit="fit",
        least_speed=effort.limit(LEAST_SPEED_SKLEARN),
    )  # fmt: skip


def _beside_diffprivlib(effort: Effort, count: int) -> Result:
    what = _what(count)
    with TemporaryDirectory() as folder:
        points = Path(folder) / "points.npy"
        np.save(points, _square(count))
        try:
            effort.tell("making an environment for diffprivlib")
            peer = DiffprivlibKMeans(points, CENTRES, REGION.half_extent_square)
        except NoDiffprivlibError as error:
            return Absent(what=what, peer=DIFFPRIVLIB, remedy=str(error))
        theirs = Contender(DIFFPRIVLIB, peer.fit, warm_up=False)
        times = in_turns([_ours(count), theirs], effort.of(2, 1), effort.tell)
    # It chooses the number of rounds itself, and it is smaller.
    name = f"{DIFFPRIVLIB} with {peer.rounds} rounds"
    return Beside(
        what=what, peer=name, ours=times[US], theirs=times[DIFFPRIVLIB], unit="fit",
        least_speed=effort.limit(LEAST_SPEED_DIFFPRIVLIB),
    )  # fmt: skip
