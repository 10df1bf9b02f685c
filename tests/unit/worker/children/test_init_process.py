"""A container's first process and the runner's own environment contain no token that a job could read."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from stack.settings import PROJECT

WIPED = """
import os
from worker.children.hardening import wipe_environment
from worker.settings.load import forget_secrets
wipe_environment(forget_secrets(os.environ))
print(open("/proc/self/environ").read())
print(os.environ["COLOUR"])
"""
# An orphan ends, the runner is interrupted from outside by nobody, and leaves with a code of its own.
FIRST = """
import os, subprocess, sys, time
from worker.children.hardening import step_aside_if_first
step_aside_if_first()
assert os.getpid() != 1
print(os.environ["WORKER_TOKEN"] == "ryw_secret", "ryw_secret" in open("/proc/1/environ").read())
subprocess.run(["sh", "-c", "true & exit 0"])
for _ in range(12_000):
    if not any(line.startswith("State:\\tZ") for line in states()): break
    time.sleep(0.01)
else: sys.exit(1)
sys.exit(9)
"""
STATES = """
import pathlib
def states():
    for entry in pathlib.Path("/proc").glob("[0-9]*"):
        try: yield from (entry / "status").read_text().splitlines()
        except OSError: pass
"""


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="/proc is Linux")
def test_a_secret_is_overwritten_where_the_kernel_shows_it_and_the_rest_stays() -> None:
    environ = {**os.environ, "WORKER_TOKEN": "ryw_secret", "WORKER_CLIENT_SECRET": "rys_secret", "COLOUR": "blue"}
    done = subprocess.run(
        [sys.executable, "-c", WIPED], env=environ, cwd=PROJECT, capture_output=True, text=True, check=True
    )
    assert "COLOUR=blue" in done.stdout
    assert done.stdout.endswith("blue\n")
    assert "ryw_secret" not in done.stdout
    assert "rys_secret" not in done.stdout
    assert "WORKER_TOKEN=xxxxxxxxxx" in done.stdout


def test_the_first_process_keeps_no_token_buries_orphans_and_leaves_like_its_runner() -> None:
    own = ["unshare", "--user", "--map-root-user", "--pid", "--fork", "--mount-proc"]
    if not Path("/proc/self/ns/user").exists() or subprocess.run([*own, "true"], check=False).returncode != 0:
        pytest.skip("this machine gives no namespaces")
    environ = {**os.environ, "WORKER_TOKEN": "ryw_secret"}
    # Not a shell in between: the program itself is the first process there.
    done = subprocess.run(
        [*own, sys.executable, "-c", STATES + FIRST], env=environ, cwd=PROJECT, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.stdout == "True False\n", done.stderr
    assert done.returncode == 9
