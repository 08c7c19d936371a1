"""The page /docs shows the whole description, loads nothing, and runs nothing."""

import hashlib
import re
from base64 import b64encode
from collections.abc import Iterator
from html.parser import HTMLParser
from typing import Any

import pytest

from nearveil.server.docs_page import docs_page
from tests.server.running import Running, running

WITHOUT_END = {"meta"}


class Page(HTMLParser):
    """Reads a page, and sees that what is opened is closed."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.ids: list[str] = []
        self.links: list[str] = []
        self.attributes: set[str] = set()
        self._open: list[str] = []
        self.feed(text)
        self.close()
        assert self._open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes.update(name for name, _ in attrs)
        found = dict(attrs)
        self.ids += [str(found["id"])] if "id" in found else []
        self.links += [str(found["href"])] if "href" in found else []
        if tag not in WITHOUT_END:
            self._open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self._open.pop() == tag


@pytest.fixture(scope="module")
def here() -> Iterator[Running]:
    with running() as service:
        service.add("ann-who-is-secret")
        yield service


def test_every_operation_and_schema_is_shown_and_every_link_leads_somewhere(here: Running) -> None:
    answer = here.call("GET", "/docs", key=None)
    assert (answer.status_code, answer.headers["content-type"]) == (200, "text/html; charset=utf-8")
    page, document = Page(answer.text), here.call("GET", "/openapi.json").json()
    for path, methods in document["paths"].items():
        assert f"<code>{path}</code>" in answer.text
        for operation in methods.values():
            assert operation["operationId"] in page.ids
    assert {f"schema-{name}" for name in document["components"]["schemas"]} <= set(page.ids)
    assert len(page.ids) == len(set(page.ids))
    assert {link.removeprefix("#") for link in page.links} <= set(page.ids)
    assert "ann-who-is-secret" not in answer.text


def test_nothing_is_loaded_or_run(here: Running) -> None:
    answer = here.call("GET", "/docs", key=None)
    page, policy = Page(answer.text), answer.headers["content-security-policy"]
    assert not {"script", "link", "img", "iframe", "form", "object"} & set(page.tags)
    assert not {name for name in page.attributes if name in ("style", "src") or name.startswith("on")}
    [style] = re.findall("<style>(.*)</style>", answer.text, re.DOTALL)
    assert f"'sha256-{b64encode(hashlib.sha256(style.encode()).digest()).decode()}'" in policy
    assert policy.startswith("default-src 'none'; ")
    assert "unsafe" not in policy
    assert "url(" not in style
    assert "@import" not in style


def test_what_a_description_says_is_text() -> None:
    bad = "</details><script>alert(1)</script>"
    operation: dict[str, Any] = {
        "tags": ["people"],
        "operationId": "x",
        "summary": bad,
        "description": bad,
        "parameters": [{"name": bad, "schema": {"type": bad}, "description": bad}],
        "requestBody": {"content": {"application/json": {"schema": {"properties": {bad: {}}}, "example": bad}}},
        "responses": {"200": {"description": bad}},
    }
    info = {"title": bad, "version": bad, "description": bad}
    page = docs_page({"info": info, "paths": {f"/{bad}": {"get": operation}}, "components": {"schemas": {bad: {}}}})
    assert "script" not in Page(page).tags
    assert "&lt;script&gt;" in page
