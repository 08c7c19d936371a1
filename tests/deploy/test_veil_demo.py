"""The demo of Veil in a real browser, from disk and over HTTP: its answers are those of the package."""

import re
from collections.abc import Iterator

import pytest
from deploy.site_reference import veil_demo

from nearveil import Veil
from tests.browser import Tab, launched

PAGE = f'<!doctype html><meta charset="utf-8"><body>{veil_demo()}'
RESULT = "document.querySelector('.veil-demo .result').textContent"
FORM = "document.querySelector('.veil-demo form').elements"


@pytest.fixture(scope="module")
def tab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Tab]:
    path = tmp_path_factory.mktemp("demo") / "demo.html"
    path.write_text(PAGE, encoding="utf-8")
    with launched() as browser:
        opened = Tab(browser)
        opened.open(path, width=800)
        opened.page.wait_for_function(RESULT)
        yield opened
        assert opened.complaints == []
        opened.close()


def result_of(tab: Tab, **fields: object) -> str:
    typed = "".join(f"form.{name}.value = {str(value)!r};" for name, value in fields.items())
    event = f"form.{next(iter(fields))}.dispatchEvent(new Event('input'))"
    tab.run(f"(() => {{ const form = {FORM}; {RESULT} = ''; {typed} {event}; }})()")
    tab.page.wait_for_function(RESULT)
    return str(tab.run(RESULT))


def test_its_answer_is_that_of_veil_and_only_fresh_offsets_average_out(tab: Tab) -> None:
    """False alarms: 1 in 10^7; the average of 100 offsets is 250 m off with probability exp(-250² / 2 / 43²)."""
    result = result_of(tab, key="07" * 32)
    latitude, longitude = Veil("07" * 32, 500).blur("ann", 52.52, 13.405)
    assert f"{latitude:.5f}°, {longitude:.5f}°" in result
    veil, fresh = (float(found) for found in re.findall(r"([\d.]+) m", result)[-2:])
    assert fresh < 250 < veil


def test_a_click_and_arrow_keys_move_the_user(tab: Tab) -> None:
    result_of(tab, latitude=52.52, longitude=13.405)
    tab.page.locator(".veil-demo .map").click(position={"x": 40, "y": 40})
    latitude, longitude = (float(tab.run(f"{FORM}.{name}.value")) for name in ("latitude", "longitude"))
    assert latitude > 52.521 and longitude < 13.404
    tab.page.locator(".veil-demo .map").press("ArrowRight")
    assert float(tab.run(f"{FORM}.longitude.value")) > longitude


def test_what_is_wrong_is_said_and_poles_are_not(tab: Tab) -> None:
    good = {"latitude": -90, "longitude": 180, "key": "07" * 32, "user": "ann"}
    for field, value in {"latitude": 91, "longitude": "", "key": "07", "user": ""}.items():
        assert field in result_of(tab, **{**good, field: value})
    assert "Published" in result_of(tab, **good)


def test_it_runs_over_http_and_asks_for_nothing_else(tab: Tab) -> None:
    tab.requests.clear()
    tab.page.route("https://site.test/", lambda route: route.fulfill(content_type="text/html", body=PAGE))
    tab.page.goto("https://site.test/")
    assert "Published" in result_of(tab, user="bob")
    assert tab.requests == ["https://site.test/"]
