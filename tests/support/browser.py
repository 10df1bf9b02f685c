"""The browser for end-to-end tests: the system's own Chromium."""

import os
import shutil
import warnings

import pytest

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
