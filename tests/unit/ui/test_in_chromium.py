"""The console's main pages in a real Chromium, as part of `make test` where there is one.

With hostile texts, and with what a person does on them: `make test-browser`.
"""

from collections.abc import Iterator

import pytest

from strata.ui.web import console, of_token
from tests.attacks.chromium import chromium, chromium_program
from tests.attacks.test_console_in_browser import TOKEN, Place, served, shows_well
from tests.support.console import filled, pages_of
from tests.support.sizes import slice_of

pytestmark = [
    pytest.mark.slow,
    pytest.mark.filterwarnings("ignore"),
    pytest.mark.skipif(
        not chromium_program(),
        reason="no page was looked at in a browser: install the package chromium, or set CHROMIUM",
    ),
]

SHAPES = ((1280, True), (1280, False), (390, False))  # width, and whether it is dark


@pytest.fixture(scope="module")
def place() -> Iterator[Place]:
    stores = filled()
    with served(of_token(console(lambda: pages_of(stores)), TOKEN)) as base:
        yield Place(stores, base)


def test_main_pages_show_well_light_dark_and_narrow_with_the_network_off(
    place: Place, tmp_path_factory: pytest.TempPathFactory
) -> None:
    with chromium(tmp_path_factory.mktemp("chromium")) as browser:
        for width, dark in slice_of(SHAPES, 0, 2):
            shows_well(browser, place, width=width, dark=dark)
