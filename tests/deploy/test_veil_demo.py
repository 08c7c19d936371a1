"""The demo of Veil in a real browser, from disk and over HTTP: its answers are those of the package."""

import functools
import http.server
import re
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from deploy.site_reference import veil_demo

from nearveil.veil import Veil
from tests.browser import Tab, launched

if TYPE_CHECKING:
    from playwright.sync_api import Browser

KEY = "07" * 32
RESULT = "document.querySelector('.veil-demo .result').textContent"
FORM = "document.querySelector('.veil-demo form').elements"


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("demo") / "demo.html"
    path.write_text(f'<!doctype html><meta charset="utf-8"><body>{veil_demo()}', encoding="utf-8")
    return path


@pytest.fixture(scope="module")
def chromium() -> Iterator["Browser"]:
    with launched() as browser:
        yield browser


@pytest.fixture
def tab(chromium: "Browser", page: Path) -> Iterator[Tab]:
    opened = Tab(chromium)
    opened.open(page, width=800)
    opened.page.wait_for_function(RESULT)
    yield opened
    assert opened.complaints == []
    assert len(opened.requests) == 1
    opened.close()


def typed(tab: Tab, **fields: object) -> str:
    """Return the result for what is typed into fields."""
    filled = "".join(f"form.{name}.value = {str(value)!r};" for name, value in fields.items())
    event = f"form.{next(iter(fields))}.dispatchEvent(new Event('input'))"
    tab.run(f"(() => {{ const form = {FORM}; {RESULT} = ''; {filled} {event}; }})()")
    tab.page.wait_for_function(RESULT)
    return str(tab.run(RESULT))


def meters(text: str) -> float:
    number, unit = text.split()
    return float(number) * (1000 if unit == "km" else 1)


def test_its_answer_is_that_of_veil_and_only_fresh_offsets_average_out(tab: Tab) -> None:
    """False alarms: 1 in 10^7; the average of 100 offsets is 250 m off with probability exp(-250² / 2 / 43²)."""
    result = typed(tab, key=KEY)
    latitude, longitude = Veil(KEY, 500).blur("ann", 52.52, 13.405)
    assert f"{latitude:.5f}°, {longitude:.5f}°" in result
    veil, fresh = (meters(found) for found in re.findall(r"[\d.]+ k?m", result)[-2:])
    assert fresh < 250 < veil


def test_a_click_and_arrow_keys_move_the_user(tab: Tab) -> None:
    typed(tab, key=KEY)
    tab.page.locator(".veil-demo .map").click(position={"x": 40, "y": 40})
    latitude, longitude = (float(tab.run(f"{FORM}.{name}.value")) for name in ("latitude", "longitude"))
    assert 52.52 < latitude < 52.54
    assert 13.36 < longitude < 13.405
    tab.page.locator(".veil-demo .map").press("ArrowRight")
    assert float(tab.run(f"{FORM}.longitude.value")) > longitude


@pytest.mark.parametrize(("field", "value"), [("latitude", "91"), ("longitude", ""), ("key", "07"), ("user", "")])
def test_what_is_wrong_is_said(tab: Tab, field: str, value: str) -> None:
    assert field in typed(tab, **{field: value})
    assert "Published" in typed(tab, latitude=-90, longitude=180, key=KEY, user="ann")


def test_it_runs_over_http(chromium: "Browser", page: Path) -> None:
    class Quiet(http.server.SimpleHTTPRequestHandler):
        def log_message(self, *arguments: object) -> None:
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(Quiet, directory=page.parent)) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        tab = Tab(chromium)
        tab.page.goto(f"http://127.0.0.1:{server.server_port}/{page.name}")
        tab.page.wait_for_function(RESULT)
        assert "Published" in tab.run(RESULT)
        tab.close()
        server.shutdown()
