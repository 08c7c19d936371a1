"""Time things fairly: several runs, the best counts, compiled code warmed up."""

import time
from collections.abc import Callable


def best_seconds(work: Callable[[], object], runs: int = 3) -> float:
    """Return the least time of several runs, after one that does not count."""
    work()
    times = []
    for _ in range(runs):
        started = time.perf_counter()
        work()
        times.append(time.perf_counter() - started)
    return min(times)


def row(what: str, ours_s: float, peer: str, peer_s: float) -> str:
    """Return one line of the table: ours, the peer, and how many times faster we are."""
    return f"  {what:<52} {ours_s * 1e3:10.1f} ms   {peer:<28} {peer_s * 1e3:10.1f} ms   {peer_s / ours_s:8.2f} x"
