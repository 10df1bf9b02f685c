"""The scripts of our own in the head of each page."""

import re
from pathlib import Path

from app.app import _head

ASSETS = Path(__file__).parents[3] / "assets"


def test_scripts_that_pages_call_are_loaded_without_defer() -> None:
    """A page's own modules wait for no deferred script: whichever came first would run first."""
    calls = re.compile(r"^\s*window\.\w+ = ", re.MULTILINE)
    called = {f"/{script.name}" for script in ASSETS.glob("*.js") if calls.search(script.read_text())}
    assert called >= {"/connection.js", "/runyard.js", "/needs_you.js"}
    heads = [str(component) for component in _head()]
    assert {path for path in called if any(path in head and "defer" not in head for head in heads)} == called
