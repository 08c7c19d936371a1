"""What is counted, and that no label holds an id or a place."""

import re
from itertools import pairwise

from prometheus_client.parser import text_string_to_metric_families

from nearveil.server.metrics import Metrics
from nearveil.server.problems import PROBLEM_NAMES


def samples(metrics: Metrics) -> dict[str, float]:
    """Every number, by name and labels."""
    text, kind = metrics.exposition()
    assert kind.startswith("text/plain; version=0.0.4")
    found = {}
    for family in text_string_to_metric_families(text.decode()):
        for sample in family.samples:
            labels = ",".join(f"{name}={value}" for name, value in sorted(sample.labels.items()))
            found[f"{sample.name}{{{labels}}}"] = sample.value
    return found


def test_counting() -> None:
    metrics = Metrics()
    metrics.reports(2)
    metrics.reports(1)
    metrics.rejected("invalid")
    metrics.rejected("not-kept")
    metrics.rejected("not-kept")
    metrics.published(0.4, epoch=12)
    metrics.set_index_size(5)
    metrics.set_people(7)
    found = samples(metrics)
    assert found["nearveil_reports_total{}"] == 3
    assert found["nearveil_rejected_total{problem=invalid}"] == 1
    assert found["nearveil_rejected_total{problem=not-kept}"] == 2
    assert found["nearveil_publication_seconds_count{}"] == 1
    assert found["nearveil_publication_seconds_sum{}"] == 0.4
    assert (found["nearveil_epoch{}"], found["nearveil_index_people{}"]) == (12, 5)
    assert found["nearveil_people{}"] == 7


def test_nothing_is_counted_that_depends_on_where_somebody_is() -> None:
    """By their whole list: whoever adds a metric has to think whether a report's place changes it."""
    names = {name.partition("{")[0].removesuffix("_created") for name in samples(Metrics())}
    ends = ("_bucket", "_count", "_sum")
    assert names == {
        "nearveil_reports_total", "nearveil_reports", "nearveil_rejected_total", "nearveil_rejected", "nearveil_epoch",
        "nearveil_index_people", "nearveil_people", "nearveil_publication_seconds",
        *(f"nearveil_{what}_seconds{end}" for what in ("question", "publication", "report") for end in ends),
        "nearveil_connections", "nearveil_failed_epochs_total", "nearveil_failed_epochs", "nearveil_store_away",
        "nearveil_store_failures_total", "nearveil_store_failures", "nearveil_store_outages_total",
        "nearveil_store_outages",
    }  # fmt: skip


def test_questions_are_a_histogram() -> None:
    metrics = Metrics()
    for seconds in (0.00005, 0.0001, 0.0015, 0.003, 7.0):
        metrics.question(seconds)
    found = samples(metrics)
    assert found["nearveil_question_seconds_count{}"] == 5
    assert abs(found["nearveil_question_seconds_sum{}"] - 7.00465) < 1e-9
    assert found["nearveil_question_seconds_bucket{le=0.0001}"] == 2
    assert found["nearveil_question_seconds_bucket{le=0.002}"] == 3
    assert found["nearveil_question_seconds_bucket{le=1.0}"] == 4
    assert found["nearveil_question_seconds_bucket{le=+Inf}"] == 5
    counts = [value for name, value in found.items() if name.startswith("nearveil_question_seconds_bucket")]
    assert all(fewer <= more for fewer, more in pairwise(counts))


def test_reports_are_a_histogram_and_failures_are_counted() -> None:
    metrics = Metrics()
    for seconds in (0.004, 0.06, 30.0):
        metrics.report_answered(seconds)
    metrics.epoch_failed()
    metrics.store_failed("disk-full")
    metrics.store_away()
    found = samples(metrics)
    assert found["nearveil_report_seconds_count{}"] == 3
    assert found["nearveil_report_seconds_bucket{le=0.1}"] == 2
    assert found["nearveil_failed_epochs_total{}"] == 1
    assert found["nearveil_store_failures_total{reason=disk-full}"] == 1
    assert found["nearveil_store_failures_total{reason=database-away}"] == 0
    assert (found["nearveil_store_outages_total{}"], found["nearveil_store_away{}"]) == (1, 1)
    metrics.store_back()
    found = samples(metrics)
    assert (found["nearveil_store_outages_total{}"], found["nearveil_store_away{}"]) == (1, 0)


def test_labels_are_words_of_ours() -> None:
    metrics = Metrics()
    for number in range(200):
        metrics.rejected(f"person-{number}")
        metrics.rejected("37.77,-122.42")
        metrics.rejected("x" * number)
    problems = {name for name in samples(metrics) if name.startswith("nearveil_rejected_total")}
    assert len(problems) <= 41
    assert {f"nearveil_rejected_total{{problem={name}}}" for name in PROBLEM_NAMES - {"outside-region"}} <= problems
    assert not any(re.search("[0-9]", name) for name in problems)
    assert samples(metrics)["nearveil_rejected_total{problem=other}"] >= 400
