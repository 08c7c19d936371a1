"""The description is complete and true: what it promises happens, and nothing else does."""

import json
import re
from collections.abc import Iterator
from typing import Any

import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis.errors import Unsatisfiable
from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_headers_conformance,
    response_schema_conformance,
    status_code_conformance,
)

from nearveil.server.problems import PROBLEM_TYPE
from nearveil.server.scopes import ROUTES
from tests.server.running import Running, running

EXAMPLES = {"platform": 6, "person": 2, "nobody": 1}
CHECKS = [
    not_a_server_error,
    status_code_conformance,
    content_type_conformance,
    response_headers_conformance,
    response_schema_conformance,
]


@pytest.fixture(scope="module")
def place() -> Iterator[Running]:
    with running(test_hooks=True, questions_per_minute=0) as found:
        found.add("ann", "bob")
        yield found


@pytest.fixture(scope="module")
def document(place: Running) -> Any:
    return place.call("GET", "/openapi.json").json()


def _operations(document: Any) -> Iterator[tuple[str, str, Any]]:
    for path, methods in document["paths"].items():
        for method, operation in methods.items():
            yield method.upper(), path, operation


def test_every_route_is_described_with_its_keys_and_problems(document: Any) -> None:
    described = {f"{method} {path}" for method, path, _ in _operations(document)}
    # What a caller needs a scope for, but for the description itself and the console.
    ruled = {f"{method} {path}" for method, path in ROUTES if not path.startswith("/v1/console/")}
    assert described == ruled - {"GET /openapi.json"} | {"GET /healthz"}
    for method, path, operation in _operations(document):
        assert operation["summary"]
        if path == "/healthz":
            continue
        assert operation["security"], path
        assert {"401", "429", "503"} <= set(operation["responses"]), path
        if method in ("POST", "PUT") and "requestBody" in operation:
            assert {"400", "413", "415", "422"} <= set(operation["responses"]), path
            assert operation["requestBody"]["content"]["application/json"]["example"]


def test_problems_are_described_with_examples(document: Any) -> None:
    for _, path, operation in _operations(document):
        for status, response in operation["responses"].items():
            if int(status) >= 400:
                examples = response["content"][PROBLEM_TYPE]["examples"].values()
                assert {example["value"]["status"] for example in examples} == {int(status)}, path


def test_every_reference_leads_somewhere(document: Any) -> None:
    schemas = document["components"]["schemas"]
    for name in re.findall(r"#/components/schemas/(\w+)", json.dumps(document)):
        assert name in schemas
    assert "HTTPValidationError" not in schemas


def test_the_examples_of_bodies_work(place: Running, document: Any) -> None:
    for method, path, operation in _operations(document):
        if "requestBody" in operation and path != "/v1/intervals":
            example = operation["requestBody"]["content"]["application/json"]["example"]
            answer = place.call(method, path.replace("{id}", "ann").replace("{name}", "shop"), json=example)
            assert answer.status_code < 300, (path, answer.text)


@pytest.mark.parametrize(
    "who",
    [
        pytest.param("platform", marks=pytest.mark.evidence),
        pytest.param("person", marks=pytest.mark.evidence),
        "nobody",
    ],
)
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_whatever_is_sent_the_answer_is_a_described_one(place: Running, who: str) -> None:
    """Random requests, right and wrong ones, from the description itself."""
    place.add("ann")
    key = {"platform": place.key, "person": place.token("ann"), "nobody": "nothing"}[who]
    headers = {"Authorization": f"Bearer {key}"}
    schema = schemathesis.openapi.from_asgi(
        "/openapi.json", place.app, headers={"Authorization": f"Bearer {place.key}"}
    )
    sent = 0
    described = {(method, path) for method, path, _ in _operations(place.call("GET", "/openapi.json").json())}
    for found in schema.get_all_operations():
        operation: Any = found.ok()  # type: ignore[union-attr]
        for mode in schemathesis.GenerationMode:

            @settings(max_examples=EXAMPLES[who], phases=[Phase.generate], suppress_health_check=list(HealthCheck))
            @given(case=operation.as_strategy(generation_mode=mode))
            def conform(case: Any) -> None:
                nonlocal sent
                sent += 1
                described.discard((case.method.upper(), case.path))
                case.call_and_validate(headers=headers, checks=CHECKS)

            try:
                conform()
            except Unsatisfiable:
                # Some routes have nothing that could be wrong.
                assert mode is schemathesis.GenerationMode.NEGATIVE
    assert sent > 10 * EXAMPLES[who]
    assert described == set(), "these routes were not tried"
