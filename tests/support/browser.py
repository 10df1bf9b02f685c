"""The browser for end-to-end tests: the system's own Chromium, with patience for a machine that does a lot beside."""

import os
import re
import shutil
from collections import defaultdict
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import Any, TypeVar

from playwright.async_api import Page as AsyncPage
from playwright.async_api import async_playwright
from playwright.sync_api import Browser, Page, Route, ViewportSize, expect, sync_playwright
from playwright.sync_api import Error as PlaywrightError

from tests.support.must import unavailable

Found = TypeVar("Found")
LOOKS = 3
# A while as a page sees it.
FRAMES = "async (count) => { while (count--) await new Promise((done) => requestAnimationFrame(done)); }"
# Without a window a page takes half of the work.
NAMES = ("chromium-headless-shell", "chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
# Milliseconds that a condition has unless a test sets another limit; a condition that is true costs none of them.
SOON = 60_000
# For operations that are slow in themselves: a lease, a rollout, a restart.
LATER = 180_000
# Fonts are loaded, moving elements have arrived, and the page has kept its size and place for some frames.
# Nothing waits for an endless rotation, which marks something that runs.
IS_SETTLED = """async () => {
  await document.fonts.ready;
  const isMoving = () => document.getAnimations().some((each) =>
    each.playState === "running" && Number.isFinite(each.effect.getComputedTiming().endTime));
  const size = () => [document.documentElement.scrollWidth, document.documentElement.scrollHeight, scrollX, scrollY].join();
  for (let frame = 0, still = 0, before = ""; frame < 1200; frame++) {
    await new Promise((done) => requestAnimationFrame(done));
    const now = size();
    still = now === before && !isMoving() ? still + 1 : 0;
    if (still === 3) return true;
    before = now;
  }
  return false;
}"""


def chromium_path() -> str:
    """The browser to drive."""
    named = os.environ.get("RUNYARD_CHROMIUM")
    found = named or next(filter(None, map(shutil.which, NAMES)), None)
    if found is None:
        unavailable(
            "browser", "there is no Chromium: apt-get install chromium, or set RUNYARD_CHROMIUM to a Chrome's path"
        )
    return found


@contextmanager
def start_chromium() -> Iterator[Browser]:
    """A browser whose pages, and the expectations about them, wait for `SOON`."""
    # Checked first: without a browser's packages Playwright's own driver may lack a library as well.
    options = _options()
    expect.set_options(timeout=SOON)
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(**options)
        yield _patient(browser)
        browser.close()


@asynccontextmanager
async def open_page(url: str) -> AsyncIterator[AsyncPage]:
    """A page of the same browser for anyone who does something else while it shows something."""
    options = _options()
    async with async_playwright() as playwright:
        browser = await playwright.chromium.launch(**options)
        page = await browser.new_page(base_url=url)
        page.set_default_timeout(SOON)
        yield page
        await browser.close()


def _options() -> dict[str, Any]:
    return {"executable_path": chromium_path(), "args": ["--no-sandbox"], "timeout": LATER}


def _patient(browser: Browser) -> Browser:
    """Playwright has no setting for all pages of a browser."""

    def waits(make: Any) -> Any:
        def made(**options: Any) -> Any:
            opened = make(**options)
            opened.set_default_timeout(SOON)
            return opened

        return made

    for name in ("new_context", "new_page"):
        setattr(browser, name, waits(getattr(browser, name)))
    return browser


class Tabs:
    """Tabs that the tests of a file use one after the other: a page in a new one takes twice the processor time."""

    def __init__(self, browser: Browser, url: str) -> None:
        """Open no tab yet; `url` is the site that all of them show."""
        self._browser, self._url = browser, url
        self._idle: dict[str, list[Page]] = defaultdict(list)
        self._used: list[tuple[str, Page, ViewportSize | None, Any]] = []

    def open(self, cookie: str = "", **options: Any) -> Page:
        """A tab that remembers nothing, with the cookie of somebody who is signed in."""
        kind = repr(sorted(options.items()))
        idle = self._idle[kind]
        page = idle.pop() if idle else self._browser.new_context(base_url=self._url, **options).new_page()
        if cookie:
            name, value = cookie.split("=", 1)
            page.context.add_cookies([{"name": name, "value": value, "url": self._url}])
        self._used.append((kind, page, page.viewport_size, options.get("reduced_motion", "null")))
        return page

    def clear(self) -> None:
        """Reset the tabs that were used; a test that changed one for good has closed it."""
        for kind, page, size, motion in self._used:
            try:
                self._forget(page, size, motion)
            except PlaywrightError:
                page.context.close()
            else:
                self._idle[kind].append(page)
        self._used = []

    def _forget(self, page: Page, size: ViewportSize | None, motion: Any) -> None:
        for other in page.context.pages:
            if other is not page:
                other.close()
        page.unroute_all()
        if page.url.startswith(self._url):
            page.evaluate("localStorage.clear(); sessionStorage.clear()")
        page.goto("about:blank")
        page.context.clear_cookies()
        page.mouse.move(0, 0)
        page.emulate_media(media="null", color_scheme="null", reduced_motion=motion)
        if size is not None and page.viewport_size != size:
            page.set_viewport_size(size)


@contextmanager
def kept_back(page: Page, address: re.Pattern[str]) -> Iterator[None]:
    """Delay the answers to a page's requests to such an address until the end: a slow network, for as long as a test likes."""
    held: list[Route] = []

    def keep(route: Route) -> None:
        held.append(route)

    page.route(address, keep)
    yield
    for route in held:
        route.continue_()
    page.unroute(address)


def settled(page: Page) -> Page:
    """Wait until a page is at rest: only then is its drawing measured or judged."""
    assert page.evaluate(IS_SETTLED), "the page never stands still"
    return page


def what_stays(page: Page, look: Callable[[], list[Found]]) -> list[Found]:
    """Return the findings that remain on the settled page; elements that had just appeared or disappeared are not found a second time."""
    found: list[Found] = []
    for _ in range(LOOKS):
        settled(page)
        found = look()
        if not found:
            break
    return found
