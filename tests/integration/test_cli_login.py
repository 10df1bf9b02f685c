"""`runyard login`, `whoami`, `logout` and profiles, against a real stack."""

import json
import os
import re
import stat
import subprocess
import sys
import uuid
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Thread
from types import SimpleNamespace

import httpx
import psycopg
import pytest

from cli.client.identity import person
from cli.errors import ExitCode
from stack.settings import PROJECT
from tests.support.authenticator import Authenticator
from tests.support.stack import RunningStack, clean_environment
from tests.support.terminal import Terminal
from tests.support.waiting import wait_until


@pytest.fixture
def account(running_stack: RunningStack) -> dict[str, str]:
    """Somebody who has signed up."""
    made = {"email": f"{uuid.uuid4().hex[:12]}@example.com", "password": uuid.uuid4().hex}
    headers = {"apikey": running_stack.publishable_key}
    httpx.post(f"{running_stack.url}/auth/v1/signup", json=made, headers=headers, timeout=30).raise_for_status()
    return made


@pytest.fixture
def terminal(running_stack: RunningStack, tmp_path: Path) -> Terminal:
    return Terminal(tmp_path / "config")


def sign_in(terminal: Terminal, stack: RunningStack, account: dict[str, str], *more: str) -> None:
    arguments = ("login", stack.url, "--key", stack.publishable_key, "--email", account["email"], "--password-stdin")
    done = terminal.run(*arguments, *more, typed=f"{account['password']}\n")
    assert done.returncode == 0, done.stderr


def expire(terminal: Terminal, **session: str) -> None:
    file = terminal.home / "profiles.json"
    document = json.loads(file.read_text())
    document["sessions"]["default"] |= {"expires_at": 0, **session}
    file.write_text(json.dumps(document))


def test_a_login_is_kept_for_this_user_alone(
    terminal: Terminal, running_stack: RunningStack, account: dict[str, str]
) -> None:
    sign_in(terminal, running_stack, account)
    file = terminal.home / "profiles.json"
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert account["password"] not in file.read_text()
    assert terminal.json("whoami")["email"] == account["email"]
    made = terminal.json("orgs", "create", f"org-{uuid.uuid4().hex[:8]}")
    assert [one["slug"] for one in terminal.json("whoami")["organizations"]] == [made["slug"]]
    assert account["email"] in terminal.run("whoami").stdout


def test_an_expired_token_is_renewed_when_many_use_it_at_once(
    terminal: Terminal, running_stack: RunningStack, account: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    sign_in(terminal, running_stack, account)
    expire(terminal)
    for name in [name for name in os.environ if name.startswith(("RUNYARD_", "SUPABASE_"))]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("RUNYARD_CONFIG_HOME", str(terminal.home))
    with ThreadPoolExecutor(4) as pool:
        answers = list(pool.map(lambda _: person()[0].call("my_organizations"), range(4)))
    assert answers == [[]] * 4
    assert terminal.run("whoami").returncode == 0


def test_an_ended_login_is_reported_with_the_command_for_a_new_one(
    terminal: Terminal, running_stack: RunningStack, account: dict[str, str]
) -> None:
    sign_in(terminal, running_stack, account)
    expire(terminal, refresh_token="gone")
    done = terminal.run("jobs", "list")
    assert (done.returncode, "runyard login" in done.stderr) == (ExitCode.SIGNED_OUT, True)


def test_a_login_that_was_ended_elsewhere_is_reported(
    terminal: Terminal, running_stack: RunningStack, account: dict[str, str]
) -> None:
    sign_in(terminal, running_stack, account)
    url, headers = f"{running_stack.url}/auth/v1", {"apikey": running_stack.publishable_key}
    other = httpx.post(f"{url}/token?grant_type=password", json=account, headers=headers, timeout=30).json()
    headers |= {"authorization": f"Bearer {other['access_token']}"}
    changed = {"password": uuid.uuid4().hex}
    httpx.put(f"{url}/user", json=changed, headers=headers, timeout=30).raise_for_status()
    for command in (("whoami",), ("jobs", "list")):
        done = terminal.run(*command)
        assert done.returncode == ExitCode.SIGNED_OUT, done.stderr
        assert "This login was ended elsewhere, or by a new password." in done.stderr
        assert "runyard login" in done.stderr


def test_several_profiles_coexist(terminal: Terminal, running_stack: RunningStack, account: dict[str, str]) -> None:
    sign_in(terminal, running_stack, account)
    sign_in(terminal, running_stack, account, "--profile", "second")
    listed = {row["name"]: row["current"] for row in terminal.json("profiles", "list")}
    assert listed == {"default": False, "second": True}
    assert terminal.run("profiles", "use", "default").returncode == 0
    assert terminal.json("whoami")["profile"] == "default"
    assert terminal.json("whoami", "--profile", "second")["profile"] == "second"
    unknown = terminal.run("whoami", "--profile", "third")
    assert (unknown.returncode, "default, second" in unknown.stderr) == (ExitCode.PROBLEM, True)


def test_signing_out_removes_the_login_locally_and_ends_it_on_the_server(
    terminal: Terminal, running_stack: RunningStack, account: dict[str, str]
) -> None:
    sign_in(terminal, running_stack, account)
    kept = json.loads((terminal.home / "profiles.json").read_text())["sessions"]["default"]
    assert terminal.run("logout").returncode == 0
    assert kept["access_token"] not in (terminal.home / "profiles.json").read_text()
    assert terminal.run("whoami").returncode == ExitCode.SIGNED_OUT
    body = {"refresh_token": kept["refresh_token"]}
    headers = {"apikey": running_stack.publishable_key}
    url = f"{running_stack.url}/auth/v1/token?grant_type=refresh_token"
    assert httpx.post(url, json=body, headers=headers, timeout=30).status_code >= 400


def test_login_fails_with_a_wrong_password_without_a_password_and_without_an_answer(
    terminal: Terminal, running_stack: RunningStack, account: dict[str, str]
) -> None:
    place = ("login", running_stack.url, "--key", running_stack.publishable_key, "--email", account["email"])
    wrong = terminal.run(*place, "--password-stdin", typed="wrong\n")
    assert (wrong.returncode, "could not sign in" in wrong.stderr) == (ExitCode.SIGNED_OUT, True)
    assert terminal.run(*place).returncode == ExitCode.USAGE
    assert terminal.run("login", "http://127.0.0.1:9", *place[2:], "--password-stdin", typed="x\n").returncode == (
        ExitCode.NO_ANSWER
    )
    assert not (terminal.home / "profiles.json").exists()


def test_tokens_may_live_in_the_keyring(
    terminal: Terminal, running_stack: RunningStack, account: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    kept: dict[tuple[str, str], str] = {}
    fake = SimpleNamespace(
        get_password=lambda *place: kept.get(place),
        set_password=lambda service, name, text: kept.update({(service, name): text}),
        delete_password=lambda *place: kept.pop(place),
    )
    monkeypatch.setitem(sys.modules, "keyring", fake)
    sign_in(terminal, running_stack, account, "--keyring")
    assert json.loads((terminal.home / "profiles.json").read_text())["sessions"] == {}
    assert terminal.json("whoami")["email"] == account["email"]
    assert terminal.run("logout").returncode == 0
    assert kept == {}


class Typing(Thread):
    """`runyard login` in a terminal of its own, until it has ended."""

    def __init__(self, home: Path, stack: RunningStack) -> None:
        super().__init__()
        command = [sys.executable, "-m", "cli", "login", stack.url, "--key", stack.publishable_key]
        environment = {**clean_environment(), "RUNYARD_CONFIG_HOME": str(home)}
        self.process = subprocess.Popen(
            command, cwd=PROJECT, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
        self.said = ""
        self.start()

    def run(self) -> None:
        for line in self.process.stderr or ():
            self.said += line

    @property
    def code(self) -> str:
        return wait_until(lambda: (re.findall(r"[B-Z]{4}-[B-Z]{4}", self.said) or [""])[-1], timeout_seconds=180)

    def ended(self) -> int:
        code = self.process.wait(180)
        self.join(180)
        return code


def test_a_code_that_is_confirmed_elsewhere_signs_in(
    terminal: Terminal, running_stack: RunningStack, account: dict[str, str], tmp_path: Path
) -> None:
    sign_in(terminal, running_stack, account)
    other = Typing(tmp_path / "other", running_stack)
    assert f"/device?code={other.code}" in other.said
    shown = terminal.run("confirm-login", other.code.lower(), "--yes")
    assert (shown.returncode, shown.stdout.strip()) == (0, "Signed in."), shown.stderr
    assert other.ended() == 0, other.said
    assert Terminal(tmp_path / "other").json("whoami")["email"] == account["email"]
    used = terminal.run("confirm-login", other.code, "--yes")
    assert (used.returncode, "No program waits with this code" in used.stderr) == (ExitCode.REFUSED, True)


def test_a_code_that_is_declined_or_too_old_signs_nobody_in(
    terminal: Terminal, running_stack: RunningStack, account: dict[str, str], tmp_path: Path
) -> None:
    sign_in(terminal, running_stack, account)
    declined = Typing(tmp_path / "declined", running_stack)
    terminal.run("confirm-login", declined.code, "--decline")
    assert (declined.ended(), "The code was declined." in declined.said) == (ExitCode.SIGNED_OUT, True)
    late = Typing(tmp_path / "late", running_stack)
    with psycopg.connect(running_stack.db_url, autocommit=True) as sql:
        code = late.code.replace("-", "")
        sql.execute("update private.device_logins set expires_at = now() where user_code = %s", [code])
    assert (late.ended(), "The code has expired." in late.said) == (ExitCode.SIGNED_OUT, True)
    assert not (tmp_path / "late" / "profiles.json").exists()


def test_doctor_names_each_problem(terminal: Terminal, running_stack: RunningStack, account: dict[str, str]) -> None:
    assert terminal.run("doctor").returncode == ExitCode.UNHEALTHY
    sign_in(terminal, running_stack, account)
    well = terminal.run("doctor")
    assert (well.returncode, "FAIL" in well.stdout) == (0, False), well.stdout
    lines = dict(line[6:].split("  ", 1) for line in well.stdout.splitlines())
    assert {name: text.strip() for name, text in lines.items()}["functions/health"] == "answers"
    assert "-0 s" not in well.stdout
    operator = terminal.also(SUPABASE_URL=running_stack.url, SUPABASE_SECRET_KEY=running_stack.secret_key)
    judged = {check["name"]: check["is_well"] for check in operator.json("doctor")}
    assert {"secret key", "database", "transactions", "sweep", "publication"} <= judged.keys()
    assert all(judged.values()), judged
    with psycopg.connect(running_stack.db_url, autocommit=True) as sql:
        sql.execute("alter publication supabase_realtime drop table public.rollouts")
        broken = operator.run("doctor")
        sql.execute("alter publication supabase_realtime add table public.rollouts")
    assert (broken.returncode, "rollouts not published" in broken.stdout) == (ExitCode.UNHEALTHY, True)
    assert operator.json("installation", "health")["organizations"] >= 1
    assert terminal.also(SUPABASE_URL=running_stack.url).run("installation", "health").returncode == ExitCode.MISSING
    (terminal.home / "profiles.json").chmod(0o644)
    open_to_all = terminal.run("doctor")
    assert (open_to_all.returncode, "chmod 600" in open_to_all.stdout) == (ExitCode.UNHEALTHY, True)


@pytest.fixture
def app_of(running_stack: RunningStack, account: dict[str, str]) -> Authenticator:
    """The authenticator of somebody who has turned two-step sign-in on."""
    url, headers = f"{running_stack.url}/auth/v1", {"apikey": running_stack.publishable_key}
    said = httpx.post(f"{url}/token?grant_type=password", json=account, headers=headers, timeout=30).json()
    headers |= {"authorization": f"Bearer {said['access_token']}"}
    made = httpx.post(f"{url}/factors", json={"factor_type": "totp"}, headers=headers, timeout=30).json()
    app = Authenticator(made["totp"]["secret"])
    place = f"{url}/factors/{made['id']}"
    challenge = httpx.post(f"{place}/challenge", json={}, headers=headers, timeout=30).json()["id"]
    given = {"challenge_id": challenge, "code": app.code()}
    httpx.post(f"{place}/verify", json=given, headers=headers, timeout=30).raise_for_status()
    return app


def test_login_to_an_account_with_two_steps_requires_a_code(
    terminal: Terminal, running_stack: RunningStack, account: dict[str, str], app_of: Authenticator
) -> None:
    where = ("login", running_stack.url, "--key", running_stack.publishable_key)
    arguments = (*where, "--email", account["email"], "--password-stdin")
    typed = f"{account['password']}\n"
    without = terminal.run(*arguments, typed=typed)
    assert (without.returncode, "--code" in without.stderr) == (ExitCode.SIGNED_OUT, True)
    wrong = terminal.run(*arguments, "--code", app_of.wrong(), typed=typed)
    assert (wrong.returncode, "That code is wrong" in wrong.stderr) == (ExitCode.SIGNED_OUT, True)
    done = terminal.run(*arguments, "--code", app_of.code(), typed=typed)
    assert done.returncode == 0, done.stderr
    assert terminal.json("whoami")["email"] == account["email"]
    expire(terminal)
    assert terminal.json("orgs", "list") == [], "a login that was renewed still has both steps"


def test_a_login_whose_device_was_removed_signs_in_again(
    terminal: Terminal, running_stack: RunningStack, account: dict[str, str], app_of: Authenticator
) -> None:
    sign_in(terminal, running_stack, account, "--code", app_of.code())
    # As if a second device were left: the sessions that stood on the first have one factor again.
    with psycopg.connect(running_stack.db_url, autocommit=True) as owner:
        owner.execute(
            "delete from auth.mfa_amr_claims as c using auth.sessions as s, auth.users as u"
            " where c.authentication_method = 'totp' and s.id = c.session_id and u.id = s.user_id and u.email = %s",
            [account["email"]],
        )
    expire(terminal)
    done = terminal.run("whoami")
    assert (done.returncode, "was removed" in done.stderr) == (ExitCode.SIGNED_OUT, True)


def test_a_password_alone_in_the_environment_is_refused_because_a_code_is_required(
    terminal: Terminal, running_stack: RunningStack, account: dict[str, str], app_of: Authenticator
) -> None:
    environment = {
        "SUPABASE_URL": running_stack.url,
        "SUPABASE_PUBLISHABLE_KEY": running_stack.publishable_key,
        "RUNYARD_EMAIL": account["email"],
        "RUNYARD_PASSWORD": account["password"],
    }
    done = terminal.also(**environment).run("whoami")
    assert (done.returncode, "requires a code" in done.stderr) == (ExitCode.SIGNED_OUT, True)


def test_a_personal_token_acts_as_its_owner_until_it_is_revoked(
    terminal: Terminal, running_stack: RunningStack, account: dict[str, str], tmp_path: Path
) -> None:
    sign_in(terminal, running_stack, account)
    org = terminal.json("orgs", "create", f"org-{uuid.uuid4().hex[:8]}")
    made = terminal.json("personal-tokens", "create", "laptop", "--days", "7")
    script = Terminal(tmp_path / "script", {"RUNYARD_API_URL": running_stack.url, "RUNYARD_TOKEN": made["token"]})
    seen = script.json("whoami")
    assert (seen["email"], [one["slug"] for one in seen["organizations"]]) == (account["email"], [org["slug"]])
    (listed,) = script.json("personal-tokens", "list")
    assert (listed["name"], listed["hint"], "token" in listed) == ("laptop", made["token"][-4:], False)
    kept = Terminal(tmp_path / "kept")
    done = kept.run("login", running_stack.url, "--token", "-", typed=f"{made['token']}\n")
    assert done.returncode == 0, done.stderr
    expire(kept)
    assert [one["slug"] for one in kept.json("orgs", "list")] == [org["slug"]], "renewed with the token"
    again = kept.run("personal-tokens", "create", "another")
    assert (again.returncode, "creates no other" in again.stderr) == (ExitCode.REFUSED, True)
    assert terminal.run("personal-tokens", "revoke", made["id"], "--yes").returncode == 0
    gone = kept.run("orgs", "list")
    assert gone.returncode != 0
    assert "revoked or has expired" in gone.stderr
    assert script.run("whoami").returncode == ExitCode.SIGNED_OUT


def test_invalid_personal_tokens_are_refused(terminal: Terminal, running_stack: RunningStack) -> None:
    shell = terminal.also(RUNYARD_API_URL=running_stack.url)
    argument = shell.run("login", "--token", "ryp_secret")
    assert (argument.returncode, "standard input" in argument.stderr) == (ExitCode.USAGE, True)
    said = {
        "": "not a personal token",
        "ryw_x": "not a personal token",
        "ryp_short": "incomplete or has extra characters",
        f"ryp_{'a' * 44}": "incomplete or has extra characters",
        f"ryp_{'a' * 43}": "is not known",
    }
    for text, words in said.items():
        done = shell.run("login", "--token", "-", typed=f"{text}\n")
        assert (done.returncode, words in done.stderr) == (ExitCode.SIGNED_OUT, True), done.stderr
