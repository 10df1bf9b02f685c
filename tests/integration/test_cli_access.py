"""`runyard access`, `teams` and `roles`, as an administrator types them, against a real stack."""

from pathlib import Path

import pytest

from cli.errors import NotFound, Refused, Usage
from tests.integration.edge.people import Person
from tests.support.stack import RunningStack
from tests.support.terminal import Terminal


@pytest.fixture
def person(running_stack: RunningStack) -> Person:
    return Person(running_stack)


@pytest.fixture
def terminal(running_stack: RunningStack, person: Person, tmp_path: Path) -> Terminal:
    return Terminal(tmp_path / "config", {**running_stack.client_environment, "RUNYARD_ACCESS_TOKEN": person.token})


def test_a_team_gets_a_role_at_a_group_and_loses_it(terminal: Terminal, person: Person) -> None:
    person.rpc("upsert_group", p_org=person.org_id, p_path="platform")
    email = person.credentials["email"]
    terminal.json("teams", "create", "sre")
    terminal.json("teams", "add", "sre", email)
    assert [row["members"] for row in terminal.json("teams", "list")] == [[email]]
    assert (
        terminal.run("access", "grant", "team:sre", "planner", "platform").stdout == "team:sre is planner at platform\n"
    )
    rows = terminal.json("access", "list", "platform")
    assert [(row["name"], row["role"], row["path"]) for row in rows] == [
        ("sre", "planner", "platform"),
        (email, "owner", "(organisation)"),
    ]
    words = terminal.run("access", "why", email, "job.plan", "platform").stdout
    assert words == (
        f"{email} may job.plan at platform: owner in the whole organisation; "
        "planner at platform through the team sre.\n"
    )
    assert terminal.run("access", "revoke", "team:sre", "planner", "platform").returncode == 0
    again = terminal.run("access", "revoke", "team:sre", "planner", "platform")
    assert (again.returncode, "was not given planner at platform" in again.stderr) == (NotFound.exit_code, True)
    terminal.json("teams", "remove", "sre", email)
    terminal.json("teams", "delete", "sre", "--yes")
    assert terminal.json("teams", "list") == []


def test_an_own_role_is_set_listed_used_and_deleted(terminal: Terminal, person: Person) -> None:
    terminal.json("accounts", "create", "ci")
    terminal.json("roles", "set", "release-manager", "job.read", "job.apply", "--description", "Ships on Fridays")
    (own,) = [row for row in terminal.json("roles", "list") if row["is_own"]]
    assert (own["name"], own["verbs"]) == ("release-manager", ["job.apply", "job.read"])
    terminal.json("access", "grant", "account:ci", "release-manager")
    used = terminal.run("roles", "delete", "release-manager")
    assert (used.returncode, 'Somebody has the role "release-manager".' in used.stderr) == (Refused.exit_code, True)
    terminal.json("access", "revoke", "account:ci", "release-manager")
    assert terminal.run("roles", "delete", "release-manager").stdout == "Deleted release-manager\n"
    assert "job.apply" in terminal.run("access", "mine").stdout


def test_wrong_names_are_refused_with_the_next_step(terminal: Terminal) -> None:
    odd = terminal.run("access", "grant", "somebody", "viewer")
    assert (odd.returncode, "team:NAME or account:NAME" in odd.stderr) == (Usage.exit_code, True)
    missing = terminal.run("access", "grant", "team:ghosts", "viewer")
    assert (missing.returncode, "`runyard teams list` shows them" in missing.stderr) == (NotFound.exit_code, True)


def test_a_personal_token_is_limited_to_a_role_and_a_path(terminal: Terminal) -> None:
    made = terminal.json("personal-tokens", "create", "ci", "--role", "planner")
    assert (made["role"], made["path"]) == ("planner", "")
    alone = terminal.run("personal-tokens", "create", "ci", "--path", "platform")
    assert (alone.returncode, "needs a role, too" in alone.stderr) == (Refused.exit_code, True)
