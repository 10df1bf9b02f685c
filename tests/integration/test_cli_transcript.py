"""The session of docs/cli.md, typed into a shell as it stands there."""

import re
import subprocess
import sys
import uuid
from pathlib import Path

import httpx
import pytest

from stack.settings import PROJECT
from tests.integration.worker_bench import Bench, open_bench
from tests.support.stack import RunningStack, clean_environment

SITE = 'resource "terraform_data" "greeting" { input = "hello world" }\noutput "greeting" { value = terraform_data.greeting.output }\n'
WRAPPER = f'#!/bin/sh\ncd -P . && PYTHONPATH={PROJECT} exec {sys.executable} -m cli "$@"\n'


def transcript() -> list[tuple[str, list[str]]]:
    """Commands of the page with the lines that they print; a line of … alone stands for any number of lines."""
    (text,) = re.findall(
        r"^```console\n(.*?)^```$", (PROJECT / "docs" / "cli.md").read_text(), re.MULTILINE | re.DOTALL
    )
    commands: list[tuple[str, list[str]]] = []
    for line in text.splitlines():
        if line.startswith("$ "):
            commands.append((line[2:], []))
        else:
            commands[-1][1].append(line)
    return commands


def pattern(lines: list[str]) -> str:
    parts = ["(?:.*\n)*" if line == "…" else re.escape(line).replace("…", "[^\n]*") + "\n" for line in lines]
    return "".join(parts)


@pytest.fixture
def shell(running_stack: RunningStack, tmp_path: Path) -> dict[str, str]:
    """A new user's environment: the program on PATH, the stack's variables, a password, a folder with code."""
    program = tmp_path / "bin" / "runyard"
    program.parent.mkdir()
    program.write_text(WRAPPER)
    program.chmod(0o755)
    (tmp_path / "site").mkdir()
    (tmp_path / "site" / "main.tf").write_text(SITE)
    (tmp_path / "password.txt").write_text("a long password\n")
    path = f"{program.parent}:{clean_environment()['PATH']}"
    return {
        **clean_environment(),
        **running_stack.client_environment,
        "PATH": path,
        "RUNYARD_CONFIG_HOME": str(tmp_path / "config"),
    }


def test_the_session_of_the_page_goes_as_it_says(
    running_stack: RunningStack, tmp_path: Path, shell: dict[str, str]
) -> None:
    email, slug = f"{uuid.uuid4().hex[:12]}@example.com", f"acme-{uuid.uuid4().hex[:8]}"
    account = {"email": email, "password": "a long password"}
    headers = {"apikey": running_stack.publishable_key}
    signed_up = httpx.post(f"{running_stack.url}/auth/v1/signup", json=account, headers=headers, timeout=30).json()
    with open_bench(running_stack, tmp_path / "bench") as bench:
        for typed, shown in transcript():
            mine = [each.replace("you@example.com", email).replace("acme", slug) for each in (typed, *shown)]
            command, expected = mine[0], pattern(mine[1:])
            done = subprocess.run(
                ["/bin/sh", "-c", f"{command} 2>&1"],
                cwd=tmp_path,
                env=shell,
                capture_output=True,
                text=True,
                timeout=180,
                check=False,
            )
            assert re.fullmatch(expected, done.stdout), f"$ {command}\n{done.stdout}\n--- expected\n{expected}"
            if command.startswith("runyard orgs create"):
                _start_runner(bench, signed_up["access_token"])


def _start_runner(bench: Bench, token: str) -> None:
    bench.folder.mkdir(exist_ok=True)
    bench.token = token
    bench.org = bench.rpc("my_organizations")[0]["id"]
    bench.runner()
