"""A real browser for tests: Debian's Chromium, driven by Playwright. Each tab is a visitor who has never been there."""

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from playwright.sync_api import Browser

CHROMIUM = next((found for name in ("chromium", "chromium-browser") if (found := shutil.which(name))), None)
PATIENCE_MS = 120_000


@contextmanager
def launched() -> Iterator["Browser"]:
    """Start the browser. Use it for the tests of one file: its event loop gets in the way of other tests."""
    playwright = pytest.importorskip("playwright.sync_api", reason="needs the package playwright")
    if CHROMIUM is None:
        pytest.skip("needs Chromium (Debian: chromium)")
    with playwright.sync_playwright() as started:
        browser = started.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox", "--disable-gpu"])
        yield browser
        browser.close()


class Tab:
    """A page with storage of its own; records what the page logs and requests."""

    def __init__(self, chromium: "Browser") -> None:
        self.page = chromium.new_context().new_page()
        self.page.set_default_timeout(PATIENCE_MS)
        self.complaints: list[str] = []
        self.requests: list[str] = []
        self.page.on("console", lambda message: self.complaints.append(message.text))
        self.page.on("pageerror", lambda error: self.complaints.append(str(error)))
        self.page.on("request", lambda request: self.requests.append(request.url))

    def open(self, path: Path, *, width: int, dark: bool = False) -> None:
        """Open a file and wait until everything is loaded."""
        self.complaints.clear()
        self.requests.clear()
        self.page.set_viewport_size({"width": width, "height": 800})
        self.page.emulate_media(media="screen", color_scheme="dark" if dark else "light")
        self.page.goto(path.as_uri())

    def run(self, script: str) -> Any:
        """Return the value of an expression, or of its promise."""
        return self.page.evaluate(script)

    def close(self) -> None:
        """Forget the visitor."""
        self.page.context.close()
