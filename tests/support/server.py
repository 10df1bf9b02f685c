"""One PostgreSQL for a whole test run, shared by all its processes.

Run as a process: `python -m tests.support.server <folder> <pid of the test run>`. It serves until that process has ended,
so that not even a killed test run leaves a server behind.
"""

import json
import os
import shutil
import signal
import sys
import tempfile
import time
from dataclasses import replace
from pathlib import Path

from stack.bootstrap import bootstrap
from stack.postgres import Cluster, find_cluster
from stack.secrets import load_secrets
from stack.settings import Settings
from tests.support.ports import free_port

READY_FILE = "ready.json"
# A clone is a thousand files, which cost three times as much on a disk.
MEMORY, ENOUGH = Path("/dev/shm"), 3 << 30


def serve(folder: Path, owner_pid: int) -> None:
    """Start, report the address, and stop when the test run ends."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    cluster = _start(folder)
    try:
        _announce(folder, cluster.settings.postgres_port)
        while _is_alive(owner_pid):
            time.sleep(0.5)
    finally:
        cluster.remove()
        if cluster.data.is_relative_to(MEMORY):
            cluster.data.parent.rmdir()


def server_settings(folder: Path, port: int) -> Settings:
    """The settings of the shared server: quick rather than crash-safe."""
    return Settings(
        home=folder, postgres_base=port, port_offset=0, pg_fsync=False, pg_max_connections=300, gateway_base=1
    )


def _start(folder: Path) -> Cluster:
    settings = server_settings(folder, free_port())
    secrets = load_secrets(settings.secrets_file)
    cluster = find_cluster(settings, secrets)
    if os.access(MEMORY, os.W_OK) and shutil.disk_usage(MEMORY).free > ENOUGH:
        cluster = replace(cluster, data=Path(tempfile.mkdtemp(prefix="runyard-test-", dir=MEMORY)) / "postgres")
        cluster.data.parent.chmod(0o755)
    cluster.prepare()
    cluster.start(folder / "postgres.log")
    bootstrap(cluster.url, secrets)
    return cluster


def _announce(folder: Path, port: int) -> None:
    with tempfile.NamedTemporaryFile("w", dir=folder, delete=False) as file:
        json.dump({"port": port, "pid": os.getpid()}, file)
    Path(file.name).rename(folder / READY_FILE)


def _is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


if __name__ == "__main__":
    serve(Path(sys.argv[1]), int(sys.argv[2]))
