"""Metrics of the service, for Prometheus. No label holds an id or a location."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import accumulate
from typing import get_args

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram
from prometheus_client.core import HistogramMetricFamily
from prometheus_client.exposition import CONTENT_TYPE_PLAIN_0_0_4, generate_latest
from prometheus_client.metrics_core import Metric
from prometheus_client.parser import text_string_to_metric_families

from nearveil.nearby.stores.base import Reason
from nearveil.server.problems import PROBLEM_NAMES

_QUESTION_SECONDS = (0.0001, 0.0002, 0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 1.0)
_REPORT_SECONDS = (0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0)
_BOUNDARY_SECONDS = (0.01, 0.1, 0.5, 1.0, 2.0, 5.0, 10.0, 30.0, 60.0, 300.0)
_MOST_PROBLEMS = 40
_NOT_COUNTED = frozenset({"outside-region"})
"""Problems that depend on where somebody is. Among few people, a count that goes up by one is about one of them."""


class Metrics:
    """Counters and gauges of one service, in a registry of their own.

    `question` and `report_answered` are for one thread, that of the event loop; all others for any.
    """

    def __init__(self) -> None:
        self._registry = CollectorRegistry()
        self._of_workers: Callable[[], Mapping[str, bytes]] | None = None
        self._questions = _Times("nearveil_question_seconds", "Questions, by the time to answer.", _QUESTION_SECONDS)
        self._registry.register(self._questions)
        self._reports = Counter("nearveil_reports", "Reports that were kept.", registry=self._registry)
        self._report_times = _Times(
            "nearveil_report_seconds",
            "Reports that were kept, by the time from their arrival to their answer.",
            _REPORT_SECONDS,
        )
        self._registry.register(self._report_times)
        self._all_rejected = self._counter("nearveil_rejected", "Requests that were refused.", "problem")
        self._rejected = {name: self._all_rejected.labels(name) for name in sorted(PROBLEM_NAMES - _NOT_COUNTED)}
        self._boundaries = Histogram(
            "nearveil_publication_seconds",
            "Epochs, by the time until what was published at their beginning could be found.",
            buckets=_BOUNDARY_SECONDS,
            registry=self._registry,
        )
        self._failed_epochs = Counter(
            "nearveil_failed_epochs", "Epochs that were not published at their time.", registry=self._registry
        )
        failures = self._counter("nearveil_store_failures", "Failed writes to the store, by why.", "reason")
        self._store_failures = {reason: failures.labels(reason) for reason in get_args(Reason)}
        self._outages = Counter(
            "nearveil_store_outages", "Times that the database could not be reached.", registry=self._registry
        )
        self._away = self._gauge("nearveil_store_away", "1 while the database cannot be reached.")
        self._epoch = self._gauge("nearveil_epoch", "Newest epoch that was published.")
        self._index_size = self._gauge("nearveil_index_people", "People who can be found.")
        self._people = self._gauge("nearveil_people", "People who are known.")
        self._connections = self._gauge("nearveil_connections", "Open connections.")

    def question(self, seconds: float) -> None:
        """Count a question that was answered."""
        self._questions.observe(seconds)

    def reports(self, count: int) -> None:
        """Count reports that were kept; what they led to would tell where people are."""
        self._reports.inc(count)

    def report_answered(self, seconds: float) -> None:
        """Count a report that was kept and answered, by the time since it arrived."""
        self._report_times.observe(seconds)

    def epoch_failed(self) -> None:
        """Count an epoch that was not published at its time."""
        self._failed_epochs.inc()

    def store_failed(self, reason: Reason) -> None:
        """Count a write that failed."""
        self._store_failures[reason].inc()

    def store_away(self) -> None:
        """Count an outage of the database, which begins."""
        self._outages.inc()
        self._away.set(1)

    def store_back(self) -> None:
        """Say that the outage has ended."""
        self._away.set(0)

    def rejected(self, problem: str) -> None:
        """Count a request that was refused, by the problem's name, unless that tells where somebody is."""
        if problem in _NOT_COUNTED:
            return
        counter = self._rejected.get(problem)
        if counter is None:
            # Only known problem names become labels.
            name = problem if len(self._rejected) < _MOST_PROBLEMS and problem.replace("-", "").isalpha() else "other"
            counter = self._rejected.setdefault(name, self._all_rejected.labels(name))
        counter.inc()

    def published(self, seconds: float, *, epoch: int) -> None:
        """Count an epoch that this process published or took over, and how long it took."""
        self._boundaries.observe(seconds)
        self._epoch.set(epoch)

    def set_index_size(self, people: int) -> None:
        """Say how many people can be found."""
        self._index_size.set(people)

    def set_people(self, people: int) -> None:
        """Say how many people are known."""
        self._people.set(people)

    def count_connections(self, count: Callable[[], int]) -> None:
        """Let the number of open connections be asked for whenever the metrics are read."""
        self._connections.set_function(count)

    def exposition(self) -> tuple[bytes, str]:
        """Return the metrics of all workers as text, and its content type; call it in a thread that may wait."""
        text = self.own() if self._of_workers is None else labelled(self._of_workers())
        return text, CONTENT_TYPE_PLAIN_0_0_4

    def own(self) -> bytes:
        """Return the metrics of this process as text."""
        return generate_latest(self._registry)

    def gather(self, of_workers: Callable[[], Mapping[str, bytes]]) -> None:
        """Show those of several workers, by the name of each."""
        self._of_workers = of_workers

    def _counter(self, name: str, help_text: str, label: str) -> Counter:
        return Counter(name, help_text, [label], registry=self._registry)

    def _gauge(self, name: str, help_text: str) -> Gauge:
        return Gauge(name, help_text, registry=self._registry)


def labelled(texts: Mapping[str, bytes]) -> bytes:
    """Return the metrics of several workers as one text, in which each sample has the label ``worker``.

    They are not added up here: a worker that is started again begins with 0, and Prometheus takes that into account for
    each worker, but could not for a sum.
    """
    families: dict[str, Metric] = {}
    for worker, text in texts.items():
        for family in text_string_to_metric_families(text.decode()):
            kept = families.setdefault(family.name, Metric(family.name, family.documentation, family.type))
            kept.samples += [
                sample._replace(labels={"worker": worker, **sample.labels})
                for sample in family.samples
                if not sample.name.endswith("_created")
            ]
    registry = CollectorRegistry()
    registry.register(_Given(families.values()))
    return generate_latest(registry)


class _Given:
    """Families that are there already."""

    def __init__(self, families: Iterable[Metric]) -> None:
        self._families = families

    def collect(self) -> Iterable[Metric]:
        return self._families


class _Times:
    """A histogram without locks, for one thread: it is counted once per request."""

    def __init__(self, name: str, help_text: str, bounds_s: Sequence[float]) -> None:
        self._name, self._help, self._bounds_s = name, help_text, bounds_s
        self._counts = [0] * (len(bounds_s) + 1)
        self._seconds = 0.0

    def observe(self, seconds: float) -> None:
        self._counts[bisect_left(self._bounds_s, seconds)] += 1
        self._seconds += seconds

    def collect(self) -> Iterator[HistogramMetricFamily]:
        """Return the histogram as Prometheus wants it: counts up to each bound."""
        bounds = [*(str(bound) for bound in self._bounds_s), "+Inf"]
        buckets = [(bound, float(count)) for bound, count in zip(bounds, accumulate(self._counts), strict=True)]
        yield HistogramMetricFamily(self._name, self._help, buckets=buckets, sum_value=self._seconds)
