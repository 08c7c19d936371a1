"""``python -m benchmarks.attacks_over_http``: the attacks through HTTP on two real services, one open, one protected.

A town of 5 km with 2,000 people, spread evenly, so that lists are as short as where people live. ZO-LIA's error grows
with how far a list reaches; in the paper's populations, which are sparser, it misses more (docs/guides/attacking.md).
"""

import argparse
import math
import statistics
import tempfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import numpy as np
from scipy import stats

from benchmarks.serving.servers import small_server
from nearveil.attacks.running_service import attack_service
from nearveil.client.http import Client
from nearveil.region import as_region

EDGES = "37.745,-122.455,37.79,-122.398"
REGION = as_region(EDGES)
PEOPLE = 2000
ATTACKS = ("gi-lia", "zo-lia", "adaptive")
OPEN = ("--noise", "1m", "--dwell", "1", "--test-hooks")
PROTECTED = ("--noise", "500m", "--test-hooks")


def main() -> None:
    """Attack both and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--targets", type=int, default=100)
    parser.add_argument("--seed", type=int, default=7)
    options = parser.parse_args()
    for name, settings in (("noise of 1 m", OPEN), ("noise of 500 m", PROTECTED)):
        with _town(settings) as client:
            for method in ATTACKS:
                results = attack_service(client, REGION, targets=options.targets, method=method, seed=options.seed)
                errors_m = [math.inf if each.error_m is None else each.error_m for each in results]
                found = sum(error_m <= 100 for error_m in errors_m)
                low, high = stats.binomtest(found, len(results)).proportion_ci(0.95)
                print(
                    f"  {name:15} {method:9} {found / len(results):.3f} of {len(results)} found within 100 m "
                    f"(95 % {low:.3f} to {high:.3f}), median error {statistics.median(errors_m):,.0f} m, "
                    f"{statistics.fmean(each.result.queries for each in results):.1f} queries"
                )


@contextmanager
def _town(settings: tuple[str, ...]) -> Iterator[Client]:
    with (
        tempfile.TemporaryDirectory() as name,
        small_server(Path(name), EDGES, settings) as (server, key),
        Client(f"http://127.0.0.1:{server.port}", key, timeout_s=60.0) as client,
    ):
        _move_in(client)
        yield client


def _move_in(client: Client) -> None:
    rng = np.random.default_rng(5)
    inside_m = rng.uniform(-0.99, 0.99, (PEOPLE, 2)) * np.array(REGION.half_extent_m)
    places = REGION.clip(REGION.from_metres(inside_m)).tolist()
    people = [f"person-{number}" for number in range(PEOPLE)]
    client.create_people(people)
    # Many at once, which the service keeps in one transaction.
    with ThreadPoolExecutor(32) as pool:
        list(pool.map(lambda person, place: client.report(person, *place), people, places))
    client.advance_epoch()


if __name__ == "__main__":
    main()
