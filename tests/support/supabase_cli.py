"""The real supabase CLI, from the npm registry, in the cache that every clone shares."""

import os
import platform
import subprocess
import sys
from pathlib import Path

from stack.settings import PROJECT, Settings
from tests.support.database import locked

# The newest one that the registry has a binary of for each platform.
VERSIONS = {"x86_64": "3.1.0", "aarch64": "2.117.0"}


class CliUnavailable(Exception):
    """The registry could not be reached, or has no binary for this platform."""


def install_cli() -> Path:
    """The CLI's JavaScript entry, fetched once by the bundler's own package manager."""
    version = VERSIONS.get(platform.machine())
    if version is None:
        raise CliUnavailable(f"no supabase CLI for {platform.machine()}")
    folder = Settings().cache_folder / "supabase-cli" / version
    entry = folder / "node_modules" / "supabase" / "dist" / "supabase.js"
    folder.mkdir(parents=True, exist_ok=True)
    with locked(folder / "lock"):
        if not entry.exists():
            (folder / "package.json").write_text('{"private": true}')
            result = run_bun(folder, "add", "--exact", f"supabase@{version}")
            if result.returncode != 0 or not entry.exists():
                raise CliUnavailable(result.stderr[-500:])
    return entry


def run_cli(entry: Path, *arguments: str, project: Path = PROJECT) -> subprocess.CompletedProcess[str]:
    """Run the CLI on a project's `supabase/` folder, this repository's unless told otherwise."""
    return run_bun(project, str(entry), *arguments, "--workdir", str(project))


def run_bun(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run bun, which the dashboard's build needs anyway."""
    bun = Path(sys.prefix) / "bin" / "bun"
    environment = {name: value for name, value in os.environ.items() if not name.startswith("SUPABASE_")}
    environment |= {"SUPABASE_TELEMETRY_DISABLED": "1", "DO_NOT_TRACK": "1", "CI": "1", "NO_COLOR": "1"}
    return subprocess.run(
        [str(bun), *arguments],
        cwd=folder, env=environment, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=280, check=False,
    )  # fmt: skip
