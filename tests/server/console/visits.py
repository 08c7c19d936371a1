"""A visit to the console: opens the page, signs in, and watches what the page complains of and whom it asks."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

PATIENCE_MS = 120_000
OVERFLOW = "document.documentElement.scrollWidth - document.documentElement.clientWidth"
# The browser itself remarks on every request that is refused or fails.
REMARKS = ("status of 4", "status of 503", "net::ERR_FAILED")


class Watch:
    """What a page complained of, and whom it asked."""

    def __init__(self, page: "Page") -> None:
        self._complaints: list[str] = []
        self._hosts: set[str | None] = set()
        page.on("console", lambda message: self._complaints.append(message.text) if message.type != "info" else None)
        page.on("pageerror", lambda error: self._complaints.append(str(error)))
        page.on("request", lambda request: self._hosts.add(urlsplit(request.url).hostname))

    def check(self) -> None:
        """Nothing may have been complained of, and nobody else asked."""
        # An image that Plotly draws has no host.
        assert self._hosts <= {"127.0.0.1", None}
        assert [words for words in self._complaints if not any(remark in words for remark in REMARKS)] == []


@contextmanager
def visiting(chromium: "Browser", address: str, **options: Any) -> Iterator["Page"]:
    """Open the page, and watch it until the end."""
    size = {"width": options.pop("width", 1280), "height": 900}
    context = chromium.new_context(viewport=size, **{"reduced_motion": "reduce", **options})  # type: ignore[arg-type]
    page = context.new_page()
    page.set_default_timeout(PATIENCE_MS)
    watch = Watch(page)
    page.goto(address)
    yield page
    context.close()
    watch.check()


def sign_in(page: "Page", key: str) -> None:
    page.get_by_label("Platform key", exact=True).fill(key)
    page.get_by_role("button", name="Open the console").click()


def signed_in(page: "Page", key: str) -> None:
    sign_in(page, key)
    page.wait_for_selector("#people-plot .scatterlayer .point")
    page.wait_for_selector("#dial-plot .scatterlayer .point")
