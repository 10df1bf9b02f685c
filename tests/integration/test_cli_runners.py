"""`runyard runners`, `accounts` and `shared-runners`, as an administrator types them, against a real stack."""

import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from cli.errors import ExitCode, Missing, NoAnswer, Refused, SignedOut, Usage
from tests.integration.edge.people import Person
from tests.support.stack import RunningStack
from tests.support.terminal import Terminal

SHARED = """
[[shared_runners]]
name = "one"
labels = ["region=eu", "gpu"]
capacity = 4

[[shared_runners]]
name = "two"
accepted_job_types = ["PLAN", "DRIFT"]
"""


@pytest.fixture
def person(running_stack: RunningStack) -> Person:
    return Person(running_stack)


@pytest.fixture
def terminal(running_stack: RunningStack, person: Person, tmp_path: Path) -> Terminal:
    return Terminal(tmp_path / "config", {**running_stack.client_environment, "RUNYARD_ACCESS_TOKEN": person.token})


def opens_a_session(stack: RunningStack, **proof: str) -> bool:
    body = {"instance": "one", "boot_id": str(uuid.uuid4()), "facts": {"version": "1.0.0"}, **proof}
    answer = httpx.post(f"{stack.url}/functions/v1/worker-session", json=body, timeout=60)
    assert answer.status_code in {200, 401, 409}, answer.text
    return answer.status_code != 401


def test_a_runner_s_whole_life(terminal: Terminal, person: Person, running_stack: RunningStack) -> None:
    person.rpc("upsert_group", p_org=person.org_id, p_path="platform")
    made = terminal.json("runners", "register", "build-1", "--assign", "platform", "--label", "gpu", "--capacity", "3")
    assert opens_a_session(running_stack, worker_id=made["id"], worker_token=made["token"])
    (listed,) = [row for row in terminal.json("runners", "list") if not row["is_shared"]]
    assert (listed["id"], listed["labels"], listed["capacity"]) == (made["id"], ["gpu"], 3)
    changed = terminal.json(
        "runners", "update", "build-1", "--name", "build-2", "--no-labels", "--accept", "PLAN", "--several-instances"
    )
    assert (changed["name"], changed["labels"], changed["accepted_job_types"]) == ("build-2", [], ["PLAN"])
    assert terminal.json("runners", "update", "build-2", "--accept-all")["accepted_job_types"] is None
    assert "accepted_job_types\tall\n" in terminal.run("runners", "show", "build-2").stdout
    assert terminal.json("runners", "drain", "build-2", "--reason", "New disk")["drain_reason"] == "New disk"
    assert terminal.json("runners", "resume", made["id"])["is_draining"] is False
    assert terminal.json("runners", "disable", "build-2")["is_disabled"] is True
    assert terminal.json("runners", "enable", "build-2")["is_disabled"] is False
    newer = terminal.json("runners", "rotate", "build-2", "--overlap", "0")
    assert not opens_a_session(running_stack, worker_id=made["id"], worker_token=made["token"])
    assert opens_a_session(running_stack, worker_id=made["id"], worker_token=newer["token"])
    assert terminal.json("runners", "remove", "build-2", "--yes")["removed_at"]
    assert terminal.run("runners", "drain", "build-2").returncode == 1


def test_an_assignment_is_added_and_removed(terminal: Terminal, person: Person) -> None:
    person.rpc("upsert_group", p_org=person.org_id, p_path="data")
    terminal.json("runners", "register", "r1")
    assert terminal.run("runners", "assign", "r1", "data").returncode == 0
    assert terminal.run("runners", "assign", "r1", "data", "--remove").returncode == 0
    again = terminal.run("runners", "assign", "r1", "data", "--remove")
    assert (again.returncode, 'not assigned to "data"' in again.stderr) == (Refused.exit_code, True)


def test_a_runner_of_a_service_account_has_no_token(terminal: Terminal, running_stack: RunningStack) -> None:
    account = terminal.json("accounts", "create", "ci")
    made = terminal.json("runners", "register", "r1", "--service-account", "ci", "--no-token", "--all-modules")
    assert (made["service_account_id"], "token" in made) == (account["id"], False)
    grant = {
        "grant_type": "client_credentials",
        "client_id": account["client_id"],
        "client_secret": account["client_secret"],
    }
    answer = httpx.post(f"{running_stack.url}/functions/v1/service-account-token", json=grant, timeout=60)
    assert opens_a_session(running_stack, worker_id=made["id"], access_token=answer.json()["access_token"])
    assert terminal.json("runners", "update", "r1", "--no-service-account")["service_account_id"] is None


def test_a_trust_names_its_claims(terminal: Terminal) -> None:
    trust = ("--issuer", "https://issuer.example", "--audience", "runyard", "--claim", "repository=acme/infra")
    made = terminal.json("accounts", "create", "ci", *trust)
    first = {"issuer": "https://issuer.example", "audience": "runyard", "bound_claims": {"repository": "acme/infra"}}
    assert made["trusts"] == [first]
    assert "client_secret" not in made
    second = ("--issuer", "https://other.example", "--claim", "sub=x")
    assert [each["issuer"] for each in terminal.json("accounts", "trust", "ci", *second)["trusts"]] == [
        "https://issuer.example",
        "https://other.example",
    ]
    assert terminal.json("accounts", "distrust", "ci", "--issuer", "https://other.example")["trusts"] == [first]
    assert terminal.run("accounts", "distrust", "ci", "--issuer", "https://x.example").returncode == ExitCode.PROBLEM
    assert terminal.json("accounts", "update", "ci", "--role", "operator")["role"] == "operator"
    assert terminal.json("accounts", "show", "ci")["role"] == "operator"
    assert terminal.json("accounts", "update", "ci", "--no-role")["role"] is None
    assert "name=value" in terminal.run("accounts", "create", "x", *trust, "--claim", "nonsense").stderr


def test_a_password_signs_in_and_several_organisations_need_a_name(
    running_stack: RunningStack, person: Person, tmp_path: Path
) -> None:
    headers = {"apikey": running_stack.publishable_key}
    account = {"email": f"{uuid.uuid4().hex[:8]}@example.com", "password": uuid.uuid4().hex}
    httpx.post(f"{running_stack.url}/auth/v1/signup", json=account, headers=headers, timeout=30).raise_for_status()
    by_password = {"RUNYARD_EMAIL": account["email"], "RUNYARD_PASSWORD": account["password"]}
    terminal = Terminal(tmp_path, {**running_stack.client_environment, **by_password})
    none = terminal.run("runners", "list")
    assert (none.returncode, "There is no organisation of yours." in none.stderr) == (1, True)
    wrong = terminal.also(RUNYARD_PASSWORD="wrong").run("runners", "list")
    assert (wrong.returncode, "could not sign in" in wrong.stderr) == (SignedOut.exit_code, True)
    slug = f"org-{uuid.uuid4().hex[:8]}"
    person.rpc("create_organization", p_name=slug, p_slug=slug)
    mine = Terminal(tmp_path, {**running_stack.client_environment, "RUNYARD_ACCESS_TOKEN": person.token})
    assert "Which organisation?" in mine.run("runners", "list").stderr
    assert mine.run("runners", "list", "--organization", slug).returncode == 0


def test_each_connection_problem_is_reported_with_its_own_exit_code(tmp_path: Path) -> None:
    nobody = Terminal(tmp_path).run("runners", "list")
    assert (nobody.returncode, "runyard login" in nobody.stderr) == (SignedOut.exit_code, True)
    nowhere = Terminal(tmp_path, {"RUNYARD_ACCESS_TOKEN": "t"}).run("runners", "list")
    assert (nowhere.returncode, "Set SUPABASE_URL." in nowhere.stderr) == (Missing.exit_code, True)
    silent = {"SUPABASE_URL": "http://127.0.0.1:9", "SUPABASE_PUBLISHABLE_KEY": "k", "RUNYARD_ACCESS_TOKEN": "t"}
    unreachable = Terminal(tmp_path, silent).run("runners", "list")
    assert (unreachable.returncode, "does not answer" in unreachable.stderr) == (NoAnswer.exit_code, True)
    nonsense = Terminal(tmp_path, {**silent, "SUPABASE_URL": "example"}).run("runners", "list")
    assert (nonsense.returncode, "not the address" in nonsense.stderr) == (Usage.exit_code, True)


@pytest.fixture
def installation(running_stack: RunningStack, tmp_path: Path) -> Iterator[Terminal]:
    """The installation's administrator; no shared runner is left for other tests of this stack."""
    terminal = Terminal(
        tmp_path / "operator", {"SUPABASE_URL": running_stack.url, "SUPABASE_SECRET_KEY": running_stack.secret_key}
    )
    yield terminal
    empty = tmp_path / "empty.toml"
    empty.write_text("")
    assert terminal.run("shared-runners", "apply", str(empty)).returncode == 0


def test_shared_runners_match_their_file(
    installation: Terminal, terminal: Terminal, running_stack: RunningStack, tmp_path: Path
) -> None:
    file = tmp_path / "shared.toml"
    file.write_text(SHARED)

    def apply(*more: str) -> dict[str, dict[str, Any]]:
        return {row["name"]: row for row in installation.json("shared-runners", "apply", str(file), *more)}

    made = apply()
    assert {row["action"] for row in made.values()} == {"made"}
    assert opens_a_session(running_stack, worker_id=made["one"]["id"], worker_token=made["one"]["token"])
    again = apply()
    assert {(row["action"], row["token"]) for row in again.values()} == {("unchanged", None)}
    seen = {row["name"]: row for row in terminal.json("runners", "list")}
    assert (seen["one"]["labels"], seen["one"]["capacity"]) == (["gpu", "region=eu"], 4)
    assert seen["two"]["accepted_job_types"] == ["PLAN", "DRIFT"]
    refused = terminal.run("runners", "drain", "one")
    assert "no organisation can change it" in refused.stderr
    file.write_text('[[shared_runners]]\nname = "one"\n')
    changed = apply()
    assert {name: row["action"] for name, row in changed.items()} == {"one": "changed", "two": "removed"}
    assert {row["name"]: row["capacity"] for row in terminal.json("runners", "list")} == {"one": 1}
    assert not opens_a_session(running_stack, worker_id=made["two"]["id"], worker_token=made["two"]["token"])
    rotated = apply("--rotate", "one")["one"]
    assert (rotated["id"], rotated["action"]) == (made["one"]["id"], "given a new token")
    assert not opens_a_session(running_stack, worker_id=made["one"]["id"], worker_token=made["one"]["token"])
    assert opens_a_session(running_stack, worker_id=rotated["id"], worker_token=rotated["token"])


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[[shared_runner]]\nname = 'x'", "shared_runner"),
        ("[[shared_runners]]\nname = 'x'\ncolour = 'red'", "shared_runners.0.colour"),
        ("[[shared_runners]]\nname = 'x'\ncapacity = 900", "shared_runners.0.capacity"),
        ("[[shared_runners]]\nname = 'x'\n[[shared_runners]]\nname = 'X'", "named twice: x"),
        ("[[shared_runners]]\nname = 'x'\naccepted_job_types = ['DANCE']", "There is no such type of job."),
        ("[[", "cannot be read"),
    ],
)
def test_a_mistake_in_the_file_is_named_and_changes_nothing(
    installation: Terminal, terminal: Terminal, tmp_path: Path, text: str, said: str
) -> None:
    file = tmp_path / "shared.toml"
    file.write_text(text)
    done = installation.run("shared-runners", "apply", str(file))
    assert done.returncode != 0
    assert said in done.stderr
    assert not [row for row in terminal.json("runners", "list") if row["name"].lower() == "x"]


def test_maintenance_is_started_shown_and_ended(terminal: Terminal) -> None:
    assert terminal.json("maintenance", "show") is None
    begun = terminal.json("maintenance", "start", "2h", "--reason", "New network")
    assert begun["reason"] == "New network"
    assert "New network" in terminal.run("maintenance", "show").stdout
    assert terminal.run("maintenance", "start", "soon", "--reason", "x").returncode == Usage.exit_code
    assert terminal.json("maintenance", "end") is None


def test_the_setting_for_shared_runners_accepts_only_known_values(terminal: Terminal) -> None:
    assert terminal.run("orgs", "shared-runners", "never").returncode == 0
    assert terminal.run("orgs", "shared-runners", "sometimes").returncode == Usage.exit_code


def test_a_shared_runner_receives_directives(installation: Terminal, tmp_path: Path) -> None:
    file = tmp_path / "shared.toml"
    file.write_text('[[shared_runners]]\nname = "one"\n')
    installation.run("shared-runners", "apply", str(file))
    assert installation.run("shared-runners", "set", "one", "drain", "--reason", "New disk").returncode == 0
    (row,) = installation.json("shared-runners", "list")
    assert (row["name"], row["is_draining"]) == ("one", True)
    assert installation.run("shared-runners", "set", "one", "dance").returncode == Usage.exit_code
    assert installation.run("shared-runners", "set", "two", "drain").returncode == Refused.exit_code
