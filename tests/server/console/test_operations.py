"""The operator's work in a real browser, by keyboard: people, keys, askers and the store; and axe-core on all of it."""

import math
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import httpx
import pytest

from nearveil.server.auth import new_platform_key
from nearveil.server.frequent_askers import MANY_QUESTIONS
from nearveil.server.scopes import Scope
from tests.server.console.visits import OVERFLOW, sign_in, signed_in, visiting
from tests.server.console_service import Place, console_service, served
from tests.waiting import PATIENCE_S

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

AXE = (Path(__file__).parent / "axe-core" / "axe.min.js").read_text(encoding="utf-8")
FOCUSED = "document.activeElement.id"
STRAY = """[...document.querySelectorAll('.panel *, dialog *')].filter(each => each.checkVisibility()
    && !each.closest('pre, .plot') && each.getBoundingClientRect().right > innerWidth).length"""
LONG_ID, LONG_NAME = "x" * 128, "k" * 64
AWAY: dict[str, Any] = {
    "kind": "PostgreSQL", "is_reachable": False, "is_writable": False, "epochs_behind": None,
    "reason": "The database cannot be reached; reports are refused.", "last_epoch": 486_204,
    "written_epochs_ago": 2, "version": None, "size_at_most_bytes": None,
}  # fmt: skip


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    """A service of its own: people are erased, and keys revoked."""
    with console_service(tmp_path_factory.mktemp("service")) as place:
        place.service.add_people([LONG_ID])
        place.service.store.add_key(new_platform_key(LONG_NAME, {Scope.REPORT})[1])
        for person, questions in (("person-7", MANY_QUESTIONS), (LONG_ID, MANY_QUESTIONS + 20)):
            for _ in range(questions):
                place.service.frequent_askers.count(person)
        place.service.advance()
        yield place


@pytest.fixture(scope="module")
def address(place: Place) -> Iterator[str]:
    with served(place.service) as address:
        yield address


@pytest.fixture(scope="module")
def console(chromium: "Browser", address: str, place: Place) -> Iterator["Page"]:
    with visiting(chromium, address) as page:
        signed_in(page, place.key)
        page.wait_for_selector("#keys-table tbody tr")
        yield page


def press(page: "Page", *keys: str) -> None:
    for key in keys:
        page.keyboard.press(key)


def go_to(page: "Page", part: str) -> None:
    """By the links at the top, so that the next stop of the Tab key is in that part."""
    page.locator(f"nav a[href='#{part}']").focus()
    press(page, "Enter")


def find(page: "Page", person: str) -> None:
    page.locator("#person-id").fill(person)
    press(page, "Enter")


def note(page: "Page", part: str, text: str) -> None:
    page.locator(f"#{part}-note", has_text=text).wait_for()


# -- a person ----------------------------------------------------------------------------------------------------------


def test_a_person_is_found_and_erased_by_keyboard(console: "Page", place: Place) -> None:
    go_to(console, "person")
    press(console, "Tab")
    assert console.evaluate(FOCUSED) == "person-id"
    console.keyboard.type("person-3")
    press(console, "Enter")
    console.wait_for_selector("#person-found:not([hidden])")
    assert console.evaluate(FOCUSED) == "person-name"
    terms = dict(zip(console.locator("#person-terms dt").all_inner_texts(),
                     console.locator("#person-terms dd").all_inner_texts(), strict=True))  # fmt: skip
    assert list(terms) == ["Created", "On the map", "Tags", "Has blocked", "Ledger"]
    published = place.service.store.record("person-3")["published"]  # type: ignore[index]
    assert f"{math.floor(abs(published['x_m']) + 0.5):,}\u00a0m" in terms["On the map"]
    assert terms["Ledger"] == "At most 20 new places in a window, as for everybody."

    press(console, "Tab")
    assert console.evaluate(FOCUSED) == "erase"
    press(console, "Enter")
    dialog = console.get_by_role("dialog", name="Erase person-3?")
    assert "cannot be undone" in dialog.inner_text()
    assert "keyed hash of the id until the window ends" in dialog.inner_text()
    # The way back has the focus, and the page behind cannot be reached.
    assert console.evaluate(FOCUSED) == "confirm-no"
    press(console, "Escape")
    assert (dialog.is_hidden(), console.evaluate(FOCUSED)) == (True, "erase")
    press(console, "Enter", "Enter")
    assert dialog.is_hidden()
    assert place.service.store.token_mark("person-3") is not None

    press(console, "Enter", "Tab", "Enter")
    note(console, "person", "person-3 is erased.")
    assert place.service.store.token_mark("person-3") is None
    assert console.locator("#person-found").is_hidden()
    assert console.evaluate(FOCUSED) == "person-id"


@pytest.mark.parametrize(
    ("person", "sentence"),
    [
        ("person-3000", "Nobody has the id person-3000."),
        ("Person-4", "Nobody has the id Person-4."),
        ("..", "An id has 1 to 128 letters"),
        ("person 4", "An id has 1 to 128 letters"),
        ("../ledger", "An id has 1 to 128 letters"),
    ],
)
def test_an_id_that_nobody_has_is_said_in_a_sentence(console: "Page", person: str, sentence: str) -> None:
    find(console, person)
    note(console, "person", sentence)
    assert console.locator("#person-found").is_hidden()


# -- keys --------------------------------------------------------------------------------------------------------------


def test_a_key_is_made_shown_once_and_revoked_by_keyboard(console: "Page", address: str) -> None:
    go_to(console, "keys")
    console.locator("#key-name").focus()
    console.keyboard.type("web-shop")
    press(console, "Enter")
    note(console, "keys", "A key without a scope may do nothing.")
    console.locator("#key-scopes input[value=metrics]").focus()
    press(console, "Space", "Enter")
    console.wait_for_selector("#key-made:not([hidden])")
    assert console.evaluate(FOCUSED) == "key-secret"
    secret = console.locator("#key-secret").input_value()
    headers = {"Authorization": f"Bearer {secret}"}
    with httpx.Client(base_url=address, headers=headers, timeout=PATIENCE_S) as client:
        assert client.get("/v1/ledger").status_code == 200
        assert client.get("/v1/platform-keys").status_code == 403
        row = console.locator("#keys-table tbody tr", has_text="web-shop")
        row.wait_for()
        assert "metrics" in row.inner_text()
        assert secret not in console.content()
        press(console, "Tab", "Tab", "Enter")
        assert (console.locator("#key-made").is_hidden(), console.locator("#key-secret").input_value()) == (True, "")

        console.locator("#key-name").fill("web-shop")
        console.locator("#key-scopes input[value=ask]").check()
        console.get_by_role("button", name="Make the key").click()
        note(console, "keys", "There is a key of that name")
        console.locator("#key-name").fill("web shop")
        console.get_by_role("button", name="Make the key").click()
        note(console, "keys", "A key's name has 1 to 64 letters")

        console.get_by_role("button", name="Revoke the key web-shop").focus()
        press(console, "Enter", "Enter")
        assert client.get("/v1/ledger").status_code == 200
        # Opened again before the browser tells that it was closed.
        console.evaluate(
            """async () => {
                const revoke = document.querySelector('[aria-label="Revoke the key web-shop"]');
                const dialog = document.getElementById('confirm');
                const closed = new Promise(done => dialog.addEventListener('close', done, { once: true }));
                revoke.click();
                document.getElementById('confirm-no').click();
                revoke.click();
                await closed.then(() => new Promise(requestAnimationFrame));
                document.getElementById('confirm-yes').click();
            }"""
        )
        note(console, "keys", "The key web-shop is revoked.")
        assert console.locator("#keys-table tbody tr", has_text="web-shop").count() == 0
        assert client.get("/v1/ledger").status_code == 401
    # The key that this page was opened with is the last one with admin.
    own = console.locator("#keys-table tbody tr", has_text="(yours)")
    assert "stays: the last with admin" in own.inner_text()
    assert own.get_by_role("button").count() == 0


@pytest.mark.evidence
def test_a_key_with_few_scopes_sees_what_it_cannot_do_and_may_end_itself(
    chromium: "Browser", address: str, place: Place
) -> None:
    secret, kept = new_platform_key("screen", {Scope.ADMIN})
    place.service.store.add_key(kept)
    place.service.access.reread()
    with visiting(chromium, address) as page:
        signed_in(page, secret)
        note(page, "person", "does not have the scope people")
        note(page, "askers", "does not have the scope people")
        assert page.locator("#person-id").is_disabled()
        assert page.locator("#askers-list").is_disabled()
        page.wait_for_selector("#keys-table tbody tr")
        given = page.locator("#key-scopes input:not(:disabled)")
        assert [box.get_attribute("value") for box in given.all()] == ["admin"]
        page.get_by_role("button", name="Revoke the key screen").click()
        assert "You are signed in with this key" in page.get_by_role("dialog").inner_text()
        page.locator("#confirm-yes").click()
        page.wait_for_selector("#sign-in:not([hidden])")
        assert page.locator("#keys-table tbody tr").count() == 0
        # A key without admin does not open the console, and the sentence names the scope.
        secret, kept = new_platform_key("narrow", {Scope.PEOPLE})
        place.service.store.add_key(kept)
        place.service.access.reread()
        sign_in(page, secret)
        page.locator("#notice", has_text="does not have the scope 'admin'").wait_for()


# -- askers and the store ----------------------------------------------------------------------------------------------


def test_askers_are_listed_and_lead_to_the_person(console: "Page") -> None:
    console.locator("#askers-list").focus()
    press(console, "Enter")
    note(console, "askers", f"2 people asked {MANY_QUESTIONS} questions or more")
    rows = console.locator("#askers-table tbody tr")
    assert [row.split() for row in rows.all_inner_texts()] == [
        [LONG_ID, "1", str(MANY_QUESTIONS + 20)],
        ["person-7", "1", str(MANY_QUESTIONS)],
    ]
    console.get_by_role("button", name="Find person-7").focus()
    press(console, "Enter")
    console.locator("#person-name", has_text="person-7").wait_for()


def test_the_store_is_well_or_says_why_not(console: "Page", place: Place) -> None:
    assert console.locator("#store-note").inner_text() == "The store can be read and written."
    terms = console.locator("#store-terms").inner_text()
    for text in ("SQLite, one file", "in this epoch", "which is this one", "at most 1\u00a0MiB"):
        assert text in terms
    console.route("**/v1/console/store", lambda route: route.fulfill(json=AWAY))
    # As the page does by itself every ten seconds.
    ask_again = "import('/console/store.js').then(({ showStore }) => showStore())"
    console.evaluate(ask_again)
    note(console, "store", "The database cannot be reached; reports are refused.")
    terms = console.locator("#store-terms").inner_text()
    assert "2 epochs ago" in terms
    assert "486,204" in terms
    console.unroute_all()
    console.evaluate(ask_again)
    note(console, "store", "The store can be read and written.")


@pytest.mark.evidence
def test_who_signs_in_while_the_store_is_away_reads_why(chromium: "Browser", address: str, place: Place) -> None:
    with visiting(chromium, address) as page:
        problem = {"title": "Not kept", "detail": "The store could not keep this."}
        page.route("**/v1/console/state", lambda route: route.fulfill(status=503, json=problem))
        page.route("**/v1/console/store", lambda route: route.fulfill(json=AWAY))
        sign_in(page, place.key)
        page.locator("#notice", has_text=AWAY["reason"]).wait_for()
        assert page.locator("#console").is_hidden()


# -- for everybody -----------------------------------------------------------------------------------------------------


def findings(page: "Page", what: str) -> list[str]:
    """What axe-core finds that is serious or critical, and where."""
    page.evaluate(AXE)
    found = page.evaluate("axe.run(document, {resultTypes: ['violations']})")["violations"]
    # The page is not empty: rules were applied to it.
    assert found is not None
    return [
        f"{what}: {rule['id']} ({rule['impact']}) at {node['target']}"
        for rule in found
        if rule["impact"] in ("serious", "critical")
        for node in rule["nodes"]
    ]


@pytest.mark.evidence
def test_axe_core_sees_what_is_wrong(console: "Page") -> None:
    """The check itself: a field without a label is found."""
    console.evaluate("document.querySelector('label[for=person-id]').removeAttribute('for')")
    assert any("label (critical)" in finding for finding in findings(console, "broken"))
    console.evaluate("document.querySelector('#person-form label').htmlFor = 'person-id'")


@pytest.mark.parametrize(("width", "scheme"), [(1280, "light"), pytest.param(390, "dark", marks=pytest.mark.evidence)])
def test_axe_core_finds_nothing_serious_and_all_of_it_fits(
    chromium: "Browser", address: str, place: Place, width: int, scheme: str
) -> None:
    with visiting(chromium, address, width=width, color_scheme=scheme) as page:
        found = findings(page, "sign in")
        signed_in(page, place.key)
        page.locator("#askers-list").click()
        page.wait_for_selector("#askers-table:not([hidden])")
        find(page, LONG_ID)
        page.wait_for_selector("#person-found:not([hidden])")
        page.locator("details").evaluate_all("all => all.forEach(each => { each.open = true; })")
        assert (page.evaluate(OVERFLOW), page.evaluate(STRAY)) == (0, 0)
        found += findings(page, "console")
        page.get_by_role("button", name=f"Switch to {'dark' if scheme == 'light' else 'light'} colours").click()
        found += findings(page, "console in other colours")
        page.locator("#erase").click()
        assert (page.evaluate(OVERFLOW), page.evaluate(STRAY)) == (0, 0)
        found += findings(page, "dialog")
        assert found == []


@pytest.mark.evidence
def test_the_tab_key_reaches_everything_and_its_place_can_be_seen(console: "Page") -> None:
    # By a key first: after a click, a browser does not mark where it is.
    press(console, "Tab")
    console.evaluate("document.querySelector('.skip').focus()")
    reached: set[str] = set()
    for _ in range(200):
        here, seen = console.evaluate("""() => {
            const each = document.activeElement, marked = each.type === "radio" ? each.nextElementSibling : each;
            return [each.id || each.getAttribute("href") || each.ariaLabel || each.value || each.tagName,
                getComputedStyle(marked).outlineStyle === "solid" && getComputedStyle(marked).outlineWidth !== "0px"];
        }""")
        if here == "BODY":
            break
        assert seen, here
        reached.add(here)
        press(console, "Tab")
    else:
        pytest.fail("the Tab key does not come to an end")
    assert {"#store", "person-id", "person-find", "askers-list", "key-name", "hide", "run", "people-plot"} <= reached
