"""The browser for end-to-end tests: the system's own Chromium."""

import os
import shutil
import warnings
from collections.abc import Callable
from typing import TypeVar

import pytest
from playwright.sync_api import Page

Found = TypeVar("Found")
# What turns for ever (the mark of something that runs) is no movement to wait for.
STILL = """() => document.getAnimations().every((each) => each.playState !== 'running'
    || each.effect.getComputedTiming().endTime === Infinity)"""
LOOKS = 3
NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")


def chromium_path() -> str:
    """The browser to drive; without one the test is skipped, loudly, and fails in CI."""
    named = os.environ.get("RUNYARD_CHROMIUM")
    found = named or next(filter(None, map(shutil.which, NAMES)), None)
    if found is None:
        advice = "there is no Chromium: apt-get install chromium, or set RUNYARD_CHROMIUM to a Chrome's path"
        if os.environ.get("CI"):
            pytest.fail(advice)
        warnings.warn(f"browser test SKIPPED: {advice}", stacklevel=2)
        pytest.skip(advice)
    return found


def settled(page: Page) -> None:
    """Wait until nothing fades or slides: on the way it has other colours and another place."""
    page.wait_for_function(STILL, timeout=60_000)


def what_stays(page: Page, look: Callable[[], list[Found]]) -> list[Found]:
    """What a look at the page that stands still finds; what something that had just come or gone showed, is not there a second time."""
    found: list[Found] = []
    for _ in range(LOOKS):
        settled(page)
        found = look()
        if not found:
            break
    return found
