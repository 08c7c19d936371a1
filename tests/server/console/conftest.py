"""A real browser for tests of the console: Debian's Chromium, driven by Playwright."""

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

from tests.browser import launched
from tests.server.console_service import Place, console_service, served

if TYPE_CHECKING:
    from playwright.sync_api import Browser


@pytest.fixture(scope="module")
def chromium() -> Iterator["Browser"]:
    with launched() as browser:
        yield browser


@pytest.fixture(scope="session")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    with console_service(tmp_path_factory.mktemp("service")) as place:
        yield place


@pytest.fixture(scope="session")
def address(place: Place) -> Iterator[str]:
    with served(place.service) as address:
        yield address
