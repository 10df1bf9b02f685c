"""The real supabase CLI, from the npm registry."""

import platform
import subprocess
from pathlib import Path

from stack.settings import PROJECT
from tests.support.npm_tools import ToolUnavailable, install_tool, run_bun

# The newest version with a binary for each platform.
VERSIONS = {"x86_64": "3.1.0", "aarch64": "2.117.0"}


def install_cli() -> Path:
    """The CLI's JavaScript entry."""
    version = VERSIONS.get(platform.machine())
    if version is None:
        raise ToolUnavailable(f"no supabase CLI for {platform.machine()}")
    return install_tool("supabase", version, "dist/supabase.js")


def run_cli(entry: Path, *arguments: str, project: Path = PROJECT) -> subprocess.CompletedProcess[str]:
    """Run the CLI on a project's `supabase/` folder, this repository's by default."""
    return run_bun(project, str(entry), *arguments, "--workdir", str(project))
