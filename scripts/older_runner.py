"""The demo's outdated runner: the real program, reporting the version before this one."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from worker import version

version.__version__ = "0.0.9"

from worker.cli import main  # noqa: E402 - the version has to be set before anybody reads it

main()
