"""The demo of `runyard up`: its modules do what they say, and it moves to another installation as one file, byte for byte."""

from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml  # type: ignore[import-untyped]

from cli.client import auth
from cli.client.api import Api
from cli.client.http import Connection
from cli.engines.cache import find
from cli.engines.catalog import ENGINES
from cli.launcher.demo.prepare import DEMO_EMAIL, MANIFEST, NO_RUNNERS
from tests.conftest import _open_folder
from tests.support.stack import RunningStack, start_stack
from tests.support.terminal import Terminal

NEW = "moved"


@pytest.fixture(scope="module")
def demo(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningStack]:
    with start_stack(_open_folder(tmp_path_factory.mktemp("demo")), "--no-dashboard") as stack:
        yield stack


def terminal_of(stack: RunningStack, password: str, home: Path) -> Terminal:
    """A terminal of the demo's person, who gets an account where there is none."""
    connection = Connection(stack.url)
    auth.make_account(Api(connection, stack.secret_key, stack.secret_key), DEMO_EMAIL, password)
    token = auth.sign_in(connection, stack.publishable_key, DEMO_EMAIL, password).access_token
    connection.close()
    return Terminal(home, {**stack.client_environment, "RUNYARD_ACCESS_TOKEN": token})


def test_the_demo_moves_to_another_installation_byte_for_byte(
    demo: RunningStack, running_stack: RunningStack, tmp_path: Path
) -> None:
    here = terminal_of(demo, demo.secrets.demo_password, tmp_path / "here")
    there = terminal_of(running_stack, demo.secrets.demo_password, tmp_path / "there")
    file, nothing = tmp_path / "runyard.yaml", tmp_path / "nothing.yaml"
    exported = here.run("export").stdout
    file.write_text(exported)
    content = yaml.safe_load(exported)
    nothing.write_text(yaml.safe_dump({"version": 1, **{kind: [] for kind in content if kind != "version"}}))
    shown = {"roles", "teams", "groups", "modules", "dependencies", "variables", "schedules", "bindings"}
    shown |= {"sealing_keys", "notifications"}
    # Rules need OPA; nothing else of the demo needs more than the engine.
    shown |= {"policies"} if find(ENGINES["opa"]) else set()
    assert {kind for kind in content if kind != "version" and content[kind]} == shown
    assert here.run("apply", str(file)).stdout == "No changes.\n"
    new = {line for line in here.run("diff", str(MANIFEST)).stdout.splitlines() if not line.startswith("+ policies ")}
    assert new <= {"No changes."}

    assert there.run("orgs", "create", NEW).returncode == 0
    assert "modules: []\n" in there.run("export", "-o", NEW).stdout
    for _ in range(2):
        done = there.run("apply", str(file), "--prune", "--yes", "-o", NEW)
        assert (done.returncode, "+ modules platform/cluster" in done.stdout) == (0, True), done.stderr
        assert there.run("export", "-o", NEW).stdout == exported
        assert there.run("apply", str(file), "--prune", "--yes", "-o", NEW).stdout == "No changes.\n"
        assert there.run("apply", str(nothing), "--prune", "--yes", "-o", NEW).returncode == 0
        assert "modules: []\n" in there.run("export", "-o", NEW).stdout


def test_the_modules_of_the_demo_do_what_they_say(demo: RunningStack, tmp_path: Path) -> None:
    if NO_RUNNERS in demo.log.read_text():
        pytest.skip("jobs cannot be isolated on this machine, so the demo has no runners")
    terminal = terminal_of(demo, demo.secrets.demo_password, tmp_path)
    runs = (
        ("apply", "platform/network/vpc", "--auto-approve"),
        ("plan", "platform/cluster"),
        ("apply", "data/warehouse", "--auto-approve"),
    )
    for command in runs:
        done = terminal.run("run", *command, "--wait")
        assert done.returncode == 0, done.stdout + done.stderr
    assert "local.missing" in terminal.run("run", "plan", "data/pipeline", "--wait").stdout
    checked = terminal.run("run", "plan", "platform/registry", "--wait").stdout
    assert ("terraform_data.registry names no cost centre" in checked) == bool(find(ENGINES["opa"]))
