"""`runyard cloud`, `rollouts` and `releases` against a real stack; what they do in a cloud is tested beside the runner."""

import re
import uuid
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest

from cli.errors import ExitCode
from tests.integration.edge.people import Person
from tests.support.stack import RunningStack
from tests.support.terminal import Terminal

ROLE = "arn:aws:iam::123456789012:role/runyard"


@pytest.fixture
def terminal(running_stack: RunningStack, tmp_path: Path) -> Terminal:
    person = Person(running_stack)
    return Terminal(tmp_path, {**running_stack.client_environment, "RUNYARD_ACCESS_TOKEN": person.token})


@pytest.fixture
def sql(running_stack: RunningStack) -> Iterator["psycopg.Connection[tuple[object, ...]]"]:
    with psycopg.connect(running_stack.db_url, autocommit=True) as connection:
        yield connection


def test_an_identity_is_made_changed_tried_and_removed(terminal: Terminal) -> None:
    made = terminal.json("cloud", "identities", "create", "aws", "--role-arn", ROLE, "--region", "eu-west-1")
    assert (made["account_id"], len(made["external_id"])) == ("123456789012", 64)
    terminal.json("cloud", "identities", "update", "aws", "--region", "eu-west-1", "--region", "us-east-1")
    assert [row["regions"] for row in terminal.json("cloud", "identities", "list")] == [["eu-west-1", "us-east-1"]]
    assert terminal.json("cloud", "identities", "verify", "aws")["type"] == "VERIFY_IDENTITY"
    untested = terminal.run("cloud", "deploy", "r1", "--identity", "aws", "--region", "eu-west-1")
    assert (untested.returncode, "has not been tested" in untested.stderr) == (ExitCode.REFUSED, True)
    wrong = terminal.run("cloud", "identities", "create", "b", "--role-arn", "x", "--region", "eu-west-1")
    assert (wrong.returncode, "role ARN" in wrong.stderr) == (ExitCode.REFUSED, True)
    assert terminal.run("cloud", "identities", "remove", "aws", "--yes").returncode == 0


def test_a_runner_is_deployed_scaled_and_updated_in_waves(
    terminal: Terminal, sql: "psycopg.Connection[tuple[object, ...]]"
) -> None:
    identity = terminal.json("cloud", "identities", "create", "aws", "--role-arn", ROLE, "--region", "eu-west-1")
    sql.execute("update public.cloud_identities set verified_at = now() where id = %s", [identity["id"]])
    deployed = terminal.run(
        "cloud", "deploy", "r1", "--identity", "aws", "--region", "eu-west-1", "--set", "capacity=2"
    )
    assert deployed.returncode == 0, deployed.stderr
    assert re.fullmatch(r"job \d+  deploys r1\n", deployed.stdout)
    assert terminal.json("runners", "show", "r1")["type"] == "cloud-hosted"
    terminal.json("cloud", "scale", "r1", "--set", "capacity=3")
    assert terminal.json("runners", "show", "r1")["capacity"] == 3
    assert terminal.json("cloud", "scale", "r1") == []
    misspelt = terminal.run("cloud", "scale", "r1", "--set", "capacity")
    assert misspelt.returncode == ExitCode.USAGE
    assert terminal.run("rollouts", "pause").returncode == ExitCode.PROBLEM
    sql.execute("insert into public.rollouts (org_id, version) values (%s, '9.9.9')", [identity["org_id"]])
    assert [row["version"] for row in terminal.json("rollouts", "list")] == ["9.9.9"]
    states = [terminal.json("rollouts", *words)["status"] for words in (("pause",), ("abort", "--yes"))]
    assert states == ["PAUSED", "ABORTED"]
    busy = terminal.run("runners", "remove", "r1", "--yes")
    assert (busy.returncode, "is already at work on this runner" in busy.stderr) == (ExitCode.REFUSED, True)
    assert terminal.run("jobs", "cancel", deployed.stdout.split()[1]).returncode == 0
    removed = terminal.run("runners", "remove", "r1", "--yes")
    assert re.fullmatch(r"job \d+  removes r1 and its parts in the cloud\n", removed.stdout), removed.stderr


def test_a_release_is_published_listed_and_withdrawn(terminal: Terminal, running_stack: RunningStack) -> None:
    operator = terminal.also(SUPABASE_SECRET_KEY=running_stack.secret_key)
    version = f"0.0.{uuid.uuid4().int % 10**6}"
    assert operator.json("releases", "publish", version)["version"] == version
    assert version in [row["version"] for row in terminal.json("releases", "list")]
    assert operator.run("releases", "withdraw", version, "--reason", "a test").returncode == 0
    assert terminal.run("releases", "withdraw", version, "--reason", "x").returncode == ExitCode.MISSING
