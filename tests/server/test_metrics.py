"""What is counted, and that no label holds an id or a place."""

import re

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
