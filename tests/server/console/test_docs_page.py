"""The page /docs in a browser, wide and narrow."""

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from playwright.sync_api import Browser


@pytest.mark.parametrize("width", [1280, 390])
def test_it_fits_and_asks_nothing_else_of_anybody(chromium: "Browser", address: str, width: int) -> None:
    page = chromium.new_page(viewport={"width": width, "height": 900})
    said: list[str] = []
    asked: list[str] = []
    page.on("console", lambda message: said.append(message.text))
    page.on("request", lambda request: asked.append(request.url))
    page.goto(f"{address}/docs")
    page.locator("#ask_nearby summary").click()
    assert page.locator("#ask_nearby pre").is_visible()
    page.locator("details").evaluate_all("all => all.forEach(one => one.open = true)")
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    # The style applies: without it a page has a margin.
    assert page.evaluate("getComputedStyle(document.body).marginTop") == "0px"
    assert (said, asked) == ([], [f"{address}/docs"])
    page.close()
