"""The documentation that the dashboard serves under /docs, built beside the state when a page of it changed."""

import hashlib
import shutil
import subprocess
import sys
from pathlib import Path

from cli.dashboard.settings import DashboardSettings
from cli.folders import sources_folder

CONFIG = "zensical.toml"


def build_documentation(settings: DashboardSettings) -> Path:
    """Return the folder of the built site; a site that cannot be built must not keep the page from starting."""
    folder, sources = settings.home / "documentation", sources_folder()
    stamp, fingerprint = folder / "stamp", _fingerprint(sources)
    if not stamp.exists() or stamp.read_text() != fingerprint:
        shutil.rmtree(folder, ignore_errors=True)
        shutil.copytree(sources / "docs", folder / "docs")
        shutil.copy(sources / CONFIG, folder / CONFIG)
        command = [sys.executable, "-m", "zensical", "build"]
        done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
        if done.returncode == 0:
            stamp.write_text(fingerprint)
        else:
            print(f"the documentation could not be built: {done.stderr[-500:]}", flush=True)
    return folder / "site"


def _fingerprint(sources: Path) -> str:
    digest = hashlib.sha256((sources / CONFIG).read_bytes())
    for file in sorted((sources / "docs").rglob("*")):
        if file.is_file():
            digest.update(str(file.relative_to(sources)).encode())
            digest.update(file.read_bytes())
    return digest.hexdigest()
