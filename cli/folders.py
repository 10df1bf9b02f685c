"""Folders that this program and its parts share."""

import os
from pathlib import Path

PROJECT = Path(__file__).resolve().parent.parent
# A wheel has no clone around it: it brings the dashboard's sources along.
BUNDLE = Path(__file__).resolve().parent / "bundle"


def sources_folder() -> Path:
    """The folder that holds app/ and docs/: the wheel's own copy, else the clone."""
    return BUNDLE if BUNDLE.is_dir() else PROJECT


def default_home() -> Path:
    """The state folder: in the clone, or in the user's own place for data."""
    data = Path(os.environ.get("XDG_DATA_HOME") or Path.home() / ".local" / "share")
    return data / "runyard" if BUNDLE.is_dir() else PROJECT / ".runyard"


def cache_folder() -> Path:
    """Return the folder for downloads, outside of a clone, so that a second one finds them; RUNYARD_CACHE names another."""
    if chosen := os.environ.get("RUNYARD_CACHE"):
        return Path(os.path.abspath(Path(chosen).expanduser()))  # noqa: PTH100 - keeps symlinks
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "runyard"
