"""The console in a real browser: an operator signs in, looks, turns the dial and plays attacks to their end."""

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

from tests.server.console.visits import OVERFLOW, Watch, sign_in, signed_in, visiting
from tests.server.console_service import PEOPLE, Place

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

POINTS = "document.getElementById('people-plot').data.at(-1).x.length"
TRACES = "document.getElementById('attack-plot').data.length"


# Pages that several tests look at: to draw the charts of a new one takes seconds.


@pytest.fixture(scope="module")
def opened(chromium: "Browser", address: str, place: Place) -> Iterator[tuple["Page", Watch]]:
    with visiting(chromium, address) as page:
        watch = Watch(page)
        signed_in(page, place.key)
        yield page, watch


@pytest.fixture
def console(opened: tuple["Page", Watch]) -> Iterator["Page"]:
    """The open console; a test leaves sliders and requests as it found them."""
    page, watch = opened
    yield page
    watch.check()


@pytest.fixture(scope="module")
def phone(chromium: "Browser", address: str, place: Place) -> Iterator["Page"]:
    """The console on a phone whose system is dark."""
    with visiting(chromium, address, width=390, has_touch=True, color_scheme="dark") as page:
        assert page.evaluate(OVERFLOW) == 0
        signed_in(page, place.key)
        yield page


def test_a_wrong_key_is_refused_in_words_and_a_right_one_stays_in_the_tab_until_signing_out(
    chromium: "Browser", address: str, place: Place
) -> None:
    with visiting(chromium, address, width=768) as page:
        assert page.evaluate(OVERFLOW) == 0
        page.set_viewport_size({"width": 1280, "height": 900})
        assert page.evaluate(OVERFLOW) == 0
        sign_in(page, "nvk_" + "A" * 43)
        page.wait_for_selector("#notice:not([hidden])")
        assert "not a valid platform key" in page.locator("#notice").inner_text()
        assert page.locator("#console").is_hidden()
        signed_in(page, place.key)
        assert page.locator("#notice").is_hidden()
        assert page.evaluate(POINTS) == PEOPLE
        assert f"All {PEOPLE} people" in page.locator("#map-text").inner_text()
        assert place.key not in page.content()

        assert page.evaluate("JSON.stringify(localStorage)") == "{}"
        assert page.evaluate("document.cookie") == ""
        page.reload()
        page.wait_for_selector("#people-plot .scatterlayer .point")
        page.get_by_role("button", name="Sign out").click()
        assert page.locator("#console").is_hidden()
        assert page.evaluate("sessionStorage.length") == 0
        page.reload()
        page.wait_for_selector("#sign-in:not([hidden])")


def test_the_ledger_the_epoch_and_the_promise_are_shown(console: "Page") -> None:
    tiles = dict(zip(console.locator("#tiles dt").all_inner_texts(),
                     console.locator("#tiles dd:not(.note)").all_inner_texts(), strict=True))  # fmt: skip
    assert list(tiles) == ["People", "Published", "New places", "Questions", "Next epoch in"]
    assert (tiles["People"], tiles["Published"], tiles["New places"]) == (str(PEOPLE), str(PEOPLE), "20")
    assert re.fullmatch(r"(\d+:)?\d+:\d\d|now", tiles["Next epoch in"])
    assert console.locator("#statements .statement").count() == 2
    assert console.locator("#statements .broken").count() == 0
    assert console.locator("#loud").is_hidden()
    assert "e^2" in console.locator("#statements").inner_text()


@pytest.mark.evidence
def test_the_map_can_be_moved_by_keys_and_buttons(console: "Page") -> None:
    # What the map shows from west to east, once ten pictures in a row have shown the same.
    window = """() => new Promise((done) => {
        let last = [], same = 0;
        const look = () => {
            const range = document.getElementById("people-plot").layout.xaxis.range;
            same = range.every((edge, side) => edge === last[side]) ? same + 1 : 0;
            last = [...range];
            same < 10 ? requestAnimationFrame(look) : done(last);
        };
        look();
    })"""
    west, east = console.evaluate(window)
    # All of the region is on it, although the panel beside it has made the map higher since it was first drawn.
    region = console.evaluate("document.getElementById('people-plot').data.at(-2).x")
    assert west < min(region)
    assert max(region) < east
    console.locator("#people-plot").focus()
    console.keyboard.press("ArrowRight")
    moved_west, moved_east = console.evaluate(window)
    assert moved_west > west
    assert moved_east - moved_west == pytest.approx(east - west, rel=0.01)
    console.locator("#people-frame").get_by_role("button", name="Zoom in").click()
    near_west, near_east = console.evaluate(window)
    assert near_east - near_west == pytest.approx((east - west) / 1.6, rel=0.01)
    console.locator("#people-plot").focus()
    console.keyboard.press("0")
    assert console.evaluate(window) == pytest.approx([west, east], rel=0.01)


def test_the_slider_moves_by_keys_and_changes_the_numbers(console: "Page") -> None:
    figures = console.locator("#figures dd:not(.note)")
    assert console.locator("#hide-value").inner_text() == "500\N{NO-BREAK SPACE}m"
    before = figures.all_inner_texts()
    at_500_m = console.locator("#hide").input_value()
    console.locator("#hide").focus()
    console.keyboard.press("ArrowRight")
    assert console.locator("#hide-value").inner_text() == "600\N{NO-BREAK SPACE}m"
    assert console.locator("#hide").get_attribute("aria-valuetext") == "600 metres"
    after = figures.all_inner_texts()
    numbers = [[float(re.sub(r"[^\d.]", "", text)) for text in texts] for texts in (before, after)]
    recall_10, recall_50, error_m, share, named, exposed = zip(*numbers, strict=True)
    assert recall_10[1] < recall_10[0]
    assert recall_50[1] < recall_50[0]
    assert error_m[1] > error_m[0]
    assert share[1] < share[0]
    assert named[1] < named[0]
    assert exposed[1] < exposed[0]
    console.keyboard.press("Home")
    assert console.locator("#hide-value").inner_text() == "50\N{NO-BREAK SPACE}m"
    # The demonstration's slider is the same one.
    assert console.locator("#attack-hide").input_value() == "0"
    console.locator("#hide").fill(at_500_m)
    assert console.locator("#hide-value").inner_text() == "500\N{NO-BREAK SPACE}m"


@pytest.mark.evidence
def test_the_dial_counts_metres_or_people(console: "Page") -> None:
    exposed = console.locator("#figures .exposed dd:not(.note)")
    within_metres = exposed.inner_text()
    console.locator("#dial-kind").get_by_role("radio", name="Among people").check(force=True)
    assert console.locator("#hide-value").inner_text() == "100\N{NO-BREAK SPACE}people"
    assert console.locator("#hide").get_attribute("aria-valuetext") == "100 people"
    assert "crowded" in console.locator("#dial-text").inner_text()
    assert console.evaluate("document.getElementById('dial-plot').layout.xaxis.title.text") == "hide among, people"
    # At about the same recall, those who live alone are named far less often.
    assert _number(exposed.inner_text()) < 0.5 * _number(within_metres)
    # The demonstration follows.
    assert console.locator("#attack-kind input[value=people]").is_checked()
    console.get_by_role("radio", name="On", exact=True).check(force=True)
    with console.expect_response(lambda answer: "demonstration" in answer.url) as answered:
        console.get_by_role("button", name="Run the attack").click()
    assert answered.value.json()["hide_among"] == 100
    console.wait_for_selector("#run:not([disabled])")
    assert "100\N{NO-BREAK SPACE}people" in console.locator("#runs tbody tr").first.inner_text()
    console.locator("#attack-kind").get_by_role("radio", name="Within metres").check(force=True)
    assert console.locator("#hide-value").inner_text() == "500\N{NO-BREAK SPACE}m"
    assert exposed.inner_text() == within_metres


def _number(text: str) -> float:
    return float(re.sub(r"[^\d.]", "", text))


@pytest.mark.parametrize("attack", ["Two circles", pytest.param("Adaptive", marks=pytest.mark.evidence)])
def test_an_attack_is_played_step_by_step_without_and_with_protection(console: "Page", attack: str) -> None:
    console.get_by_role("radio", name=attack).check(force=True)
    errors_m, runs = [], console.locator("#runs tbody tr").count()
    for protection in ("Off", "On"):
        console.get_by_role("radio", name=protection, exact=True).check(force=True)
        with console.expect_response(lambda answer: "demonstration" in answer.url) as answered:
            console.get_by_role("button", name="Run the attack").click()
        questions = answered.value.json()["questions"]
        console.wait_for_selector(f"#scrub[max='{questions}']")
        assert console.locator("#verdict").is_hidden()
        # Nothing moves by itself where motion is unwelcome.
        assert console.get_by_role("button", name="Play").is_visible()
        # A picture takes a second to draw: of a long attack only the first and the last questions are stepped through.
        for number in range(1, questions + 1):
            if number == 4 and questions > 20:
                console.locator("#scrub").fill(str(questions - 2))
            if 4 <= number < questions - 1 and questions > 20:
                continue
            assert console.locator("#caption").inner_text().startswith(f"Query {number} of {questions},")
            console.get_by_role("button", name="Step", exact=True).click()
        assert console.locator("#caption").inner_text().startswith(f"After {questions} questions")
        assert console.get_by_role("button", name="Step", exact=True).is_disabled()
        assert console.locator("#verdict").is_visible()
        errors_m.append(float(re.sub(r"[^\d.]", "", console.locator("#error").inner_text())))
        console.get_by_role("button", name="Back").click()
        assert console.locator("#caption").inner_text().startswith(f"Query {questions} of")
        assert console.locator("#verdict").is_hidden()
    assert errors_m[0] <= 100 < errors_m[1]
    assert console.locator("#runs tbody tr").count() == runs + 2
    assert console.evaluate(TRACES) > 5


def check_that_all_of_it_fits(page: "Page") -> None:
    page.get_by_role("radio", name="On", exact=True).check(force=True)
    page.get_by_role("button", name="Run the attack").click()
    # Before, an attack of another test may be shown.
    page.wait_for_selector("#run:not([disabled])")
    page.get_by_role("button", name="End").click()
    page.wait_for_selector("#verdict:not([hidden])")
    page.locator("#promise details").evaluate("each => each.open = true")
    assert page.evaluate(OVERFLOW) == 0
    # Nothing sticks out of its panel either.
    stray = """[...document.querySelectorAll('.panel *')].filter(each => each.checkVisibility()
        && !each.closest('pre, .plot') && each.getBoundingClientRect().right > innerWidth).length"""
    assert page.evaluate(stray) == 0


@pytest.mark.evidence
@pytest.mark.parametrize("width", [1280, 768])
def test_it_fits_at_any_width(console: "Page", width: int) -> None:
    console.set_viewport_size({"width": width, "height": 900})
    check_that_all_of_it_fits(console)
    console.set_viewport_size({"width": 1280, "height": 900})


@pytest.mark.evidence
def test_it_fits_on_a_phone(phone: "Page") -> None:
    check_that_all_of_it_fits(phone)


def test_a_service_that_is_gone_is_said_in_words(console: "Page") -> None:
    console.route("**/v1/console/demonstration", lambda route: route.abort())
    console.get_by_role("button", name="Run the attack").click()
    console.wait_for_selector("#notice:not([hidden])")
    assert "does not answer" in console.locator("#notice").inner_text()
    assert console.get_by_role("button", name="Run the attack").is_enabled()
    console.unroute_all()
