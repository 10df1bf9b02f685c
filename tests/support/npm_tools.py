"""Pinned programs of the npm registry, installed once into the cache that every clone shares."""

import os
import subprocess
import sys
from pathlib import Path

from stack.settings import Settings
from tests.support.database import locked


class ToolUnavailable(Exception):
    """The registry does not answer, or has no such version for this platform."""


def install_tool(package: str, version: str, entry: str) -> Path:
    """The tool's JavaScript entry below its package, fetched once by the bundler's own package manager."""
    folder = Settings().cache_folder / package.rpartition("/")[2] / version
    found = folder / "node_modules" / package / entry
    folder.mkdir(parents=True, exist_ok=True)
    with locked(folder / "lock"):
        if not found.exists():
            (folder / "package.json").write_text('{"private": true}')
            result = run_bun(folder, "add", "--exact", f"{package}@{version}")
            if result.returncode != 0 or not found.exists():
                raise ToolUnavailable(result.stderr[-500:])
    return found


def run_bun(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run bun, which the dashboard's build needs anyway."""
    bun = Path(sys.prefix) / "bin" / "bun"
    environment = {name: value for name, value in os.environ.items() if not name.startswith("SUPABASE_")}
    environment |= {"SUPABASE_TELEMETRY_DISABLED": "1", "DO_NOT_TRACK": "1", "CI": "1", "NO_COLOR": "1"}
    return subprocess.run(
        [str(bun), *arguments],
        cwd=folder, env=environment, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=280, check=False,
    )  # fmt: skip
