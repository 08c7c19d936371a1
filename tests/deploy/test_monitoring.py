"""What the dashboard and the alerts ask Prometheus for is what a running service counts, by name, label and value."""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import yaml
from prometheus_client.parser import text_string_to_metric_families

from tests.server.running import running

DEPLOY = Path(__file__).parents[2] / "deploy"
# Labels that Prometheus adds to everything that it reads, and its own metric.
ADDED = {"job", "instance"}
OWN = {"up": ADDED}


class Query(NamedTuple):
    where: str
    expression: str
    labels: frozenset[str] = frozenset()
    """Labels that a legend or an alert's text names."""


def queries() -> Iterator[Query]:
    dashboard = json.loads((DEPLOY / "grafana" / "dashboards" / "nearveil.json").read_text(encoding="utf-8"))
    for panel in dashboard["panels"]:
        for target in panel["targets"]:
            named = frozenset(re.findall(r"{{\s*(\w+)\s*}}", target["legendFormat"]))
            yield Query(panel["title"], target["expr"], named)
    for group in _yaml("prometheus/alerts.yml")["groups"]:
        for rule in group["rules"]:
            named = frozenset(re.findall(r"\$labels\.(\w+)", rule["annotations"]["summary"]))
            yield Query(rule["alert"], rule["expr"], named)


def _yaml(name: str) -> Any:
    return yaml.safe_load((DEPLOY / name).read_text(encoding="utf-8"))


@pytest.fixture(scope="module")
def counted() -> dict[str, dict[str, set[str]]]:
    """Return the values of each label of each metric of a service that was asked and reported to."""
    with running() as service:
        service.add("ann")
        service.report("ann")
        service.next_epoch()
        service.nearby()
        text = service.call("GET", "/metrics").text
    found: dict[str, dict[str, set[str]]] = {name: {key: set() for key in labels} for name, labels in OWN.items()}
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            labels = found.setdefault(sample.name, {key: set() for key in ADDED})
            for label, value in sample.labels.items():
                labels[label] = labels.get(label, set()) | {value}
    return found


@pytest.mark.parametrize("query", list(queries()), ids=lambda query: query.where)
def test_a_query_names_what_is_counted(query: Query, counted: dict[str, dict[str, set[str]]]) -> None:
    names = re.findall(r"\b(nearveil_\w+|up)\b", query.expression)
    assert names
    assert set(names) <= counted.keys()
    grouped = {label.strip() for part in re.findall(r"\bby \(([^)]*)\)", query.expression) for label in part.split(",")}
    for name in names:
        # A histogram's buckets are told apart by le; no query may add them up with it left out by mistake.
        assert ("le" in grouped) == name.endswith("_bucket")
        assert grouped | query.labels <= counted[name].keys()
    # What a legend or a text names must be left by the grouping.
    assert query.labels <= grouped
    for name, chosen in re.findall(r"\b(nearveil_\w+|up){([^}]*)}", query.expression):
        for label, value in re.findall(r'(\w+)="([^"]*)"', chosen):
            assert label in counted[name]
            assert label in ADDED or value in counted[name][label]


def test_no_metric_is_left_out() -> None:
    """Whoever adds a metric for operators finds out here that the dashboard does not show it."""
    with running() as service:
        families = {family.name for family in text_string_to_metric_families(service.call("GET", "/metrics").text)}
    asked = " ".join(query.expression for query in queries())
    assert {name for name in families if name not in asked and not name.endswith("_created")} == set()


def test_the_job_and_the_datasource_are_the_ones_that_queries_name() -> None:
    scraped = _yaml("prometheus/prometheus.yml")
    assert [one["job_name"] for one in scraped["scrape_configs"]] == ["nearveil"]
    assert scraped["rule_files"] == ["alerts.yml"]
    source = _yaml("grafana/provisioning/datasources/prometheus.yaml")["datasources"][0]
    dashboard = (DEPLOY / "grafana" / "dashboards" / "nearveil.json").read_text(encoding="utf-8")
    assert set(re.findall(r'"uid": "(\w+)"', dashboard)) == {source["uid"], "nearveil"}


def test_alerts_cover_what_matters() -> None:
    asked = " ".join(query.expression for query in queries() if query.where.startswith("Nearveil"))
    for name in (
        "up", "nearveil_failed_epochs_total", "nearveil_store_away", "nearveil_store_failures_total",
        'problem="chain-broken"', "nearveil_question_seconds_bucket", "nearveil_report_seconds_bucket",
    ):  # fmt: skip
        assert name in asked
