"""Every refusal is a problem document, says what to do, and repeats nothing of the request."""

import json
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nearveil.errors import DataError
from nearveil.nearby.stores.base import StoreError
from nearveil.server import problems
from nearveil.server.problems import PROBLEM_NAMES, Problem, problem_body, problem_of

ALL: dict[str, tuple[int, Callable[[], Problem]]] = {
    "malformed-json": (400, problems.malformed_json),
    "malformed-request": (400, problems.malformed_request),
    "unauthorised": (401, problems.unauthorised),
    "forbidden": (403, problems.forbidden),
    "missing-scope": (403, lambda: problems.missing_scope("ask")),
    "not-found": (404, problems.not_found),
    "method-not-allowed": (405, lambda: problems.method_not_allowed("GET, PUT")),
    "too-large": (413, lambda: problems.too_large(65_536)),
    "conflict": (409, problems.conflict),
    "chain-broken": (409, problems.chain_broken),
    "cursor-expired": (409, problems.cursor_expired),
    "invalid": (422, problems.invalid),
    "outside-region": (422, problems.outside_region),
    "too-many-requests": (429, lambda: problems.too_many_requests(2.5)),
    "wrong-media-type": (415, problems.wrong_media_type),
    "too-slow": (408, problems.too_slow),
    "headers-too-large": (431, lambda: problems.headers_too_large(100, 16_384)),
    "too-many-connections": (503, problems.too_many_connections),
    "internal": (500, problems.internal),
    "not-ready": (503, problems.not_ready),
    "not-kept": (503, problems.not_kept),
    "store-ahead": (503, problems.store_ahead),
    "not-logged": (503, problems.not_logged),
    "too-busy": (503, problems.too_busy),
}


@pytest.mark.parametrize("name", ALL)
def test_each_problem_is_a_document(name: str) -> None:
    status, make = ALL[name]
    problem = make()
    document = json.loads(problem_body(problem))
    assert set(document) == {"type", "title", "status", "detail"}
    assert (document["type"], document["status"]) == (f"urn:nearveil:problem:{name}", status)
    assert (problem.name, problem.status) == (name, status)
    assert all(document[part].strip() for part in ("title", "detail"))


def test_the_list_of_names_is_complete() -> None:
    assert set(ALL) == PROBLEM_NAMES


def test_every_error_of_a_request_ends_in_one_problem() -> None:
    latitude = "37.7749"
    refused = problems.forbidden()
    assert problem_of(refused) is refused
    for error, name in (
        (StoreError(latitude), "not-kept"),
        (DataError(latitude), "internal"),
        (KeyError(latitude), "internal"),
    ):
        problem = problem_of(error)
        assert problem.name == name
        assert latitude not in problem_body(problem).decode()


def test_headers() -> None:
    assert problems.unauthorised().headers["WWW-Authenticate"].startswith("Bearer")
    assert problems.method_not_allowed("GET, PUT").headers == {"Allow": "GET, PUT"}
    assert problems.not_found().headers == {}
    assert "65,536" in problems.too_large(65_536).detail
    assert problems.invalid("k is a whole number.").detail == "k is a whole number."


@given(st.floats(0, 1e6))
def test_retry_after_is_whole_seconds_and_never_too_early(wait_s: float) -> None:
    for make in (problems.too_many_requests, problems.not_ready):
        header = make(wait_s).headers["Retry-After"]
        assert header.isdigit()
        assert max(1.0, wait_s) <= int(header) < wait_s + 2


@given(st.text(), st.text())
def test_whatever_the_words_the_body_is_json(title: str, detail: str) -> None:
    title, detail = (part.encode("utf-8", "replace").decode() for part in (title, detail))
    document = json.loads(problem_body(Problem("invalid", 422, title, detail)))
    assert (document["title"], document["detail"]) == (title, detail)


def test_an_error_report_of_a_problem_has_only_its_name() -> None:
    assert str(problems.invalid("latitude")) == "invalid"
