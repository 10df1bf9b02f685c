"""Folders that this program and its parts share."""

import os
from pathlib import Path

PROJECT = Path(__file__).resolve().parent.parent


def cache_folder() -> Path:
    """Where downloads are kept outside of a clone, so that a second one finds them; RUNYARD_CACHE names another."""
    if chosen := os.environ.get("RUNYARD_CACHE"):
        return Path(os.path.abspath(Path(chosen).expanduser()))  # noqa: PTH100 - keeps symlinks
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "runyard"
