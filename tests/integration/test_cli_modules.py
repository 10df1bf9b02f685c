"""`runyard modules` against a real stack: what a person decides is written, what the database keeps is not."""

import uuid
from pathlib import Path

import httpx
import psycopg
import pytest

from cli.modules.files import FIELDS
from tests.integration.edge.people import Person
from tests.support.stack import RunningStack
from tests.support.terminal import Terminal


@pytest.fixture
def person(running_stack: RunningStack) -> Person:
    return Person(running_stack)


@pytest.fixture
def terminal(person: Person, tmp_path: Path) -> Terminal:
    stack = person.stack
    key = {"SUPABASE_URL": stack.url, "SUPABASE_PUBLISHABLE_KEY": stack.publishable_key}
    return Terminal(tmp_path / "config", {**key, "RUNYARD_ACCESS_TOKEN": person.token})


@pytest.fixture
def path(terminal: Terminal) -> str:
    made = f"apps/m{uuid.uuid4().hex[:8]}"
    assert terminal.run("modules", "create", made).returncode == 0
    return made


def test_a_module_is_edited_after_a_drift_check(
    terminal: Terminal, running_stack: RunningStack, path: str, tmp_path: Path
) -> None:
    with psycopg.connect(running_stack.db_url, autocommit=True) as sql:
        drift = "update public.modules set drift_checked_at = now(), drift_since = now(), drift_resources = 2 where path = %s"
        sql.execute(drift, [path])
    done = terminal.run("modules", "edit", path, "--set", "approvals_required=1", "--yes")
    assert done.returncode == 0, done.stderr
    assert "drift" not in done.stderr
    assert terminal.json("modules", "show", path)["approvals_required"] == 1
    written = terminal.run("modules", "export", path, "--to", str(tmp_path))
    assert "Wrote 1 file below" in written.stderr
    assert "drift" not in (tmp_path / f"{path}.toml").read_text()


def test_a_file_has_every_field_that_the_database_accepts(person: Person, terminal: Terminal, path: str) -> None:
    row = terminal.json("modules", "show", path)

    def is_accepted(name: str) -> bool:
        url = f"{person.stack.url}/rest/v1/rpc/update_module"
        body = {"p_module": row["id"], "p_spec": {name: row[name]}}
        answer = httpx.post(url, json=body, headers=person.headers, timeout=60)
        return answer.is_success or "Unknown option" not in answer.json()["message"]

    assert {name for name in row if is_accepted(name)} == FIELDS & row.keys()
    assert row.keys() >= FIELDS
