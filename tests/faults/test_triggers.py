"""Schedules and notifications with real processes: down for a while, receivers that fail, kill -9 of every part in turn."""

import base64
import hashlib
import hmac
import json
import os
import secrets
import signal
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import psycopg
import pytest

from tests.conftest import _open_folder
from tests.integration.edge.people import Person as ApiPerson
from tests.support.git_provider import run_git_provider
from tests.support.github import APP, CODE, INSTALLATION, WEBHOOK_SECRET, run_github
from tests.support.receiver import Received, Receiver, run_receiver
from tests.support.stack import RunningStack, start_stack
from tests.support.waiting import wait_until
from tests.support.webhooks import gitea, pull_body
from tests.support.webhooks import github as github_headers

SECRET = "a-secret-of-the-test"
HURRY = "update private.notifier set retry_seconds = array_fill(1, array[60]), lease_seconds = 3"
ALLOWED = {"RUNYARD_ALLOW_PRIVATE_RECEIVERS": "true"}


@dataclass
class Person:
    """An owner of an organisation, as the API knows them."""

    stack: RunningStack
    token: str
    org: str = ""

    def request(self, path: str, body: dict[str, Any]) -> httpx.Response:
        headers = {"apikey": self.stack.publishable_key, "authorization": f"Bearer {self.token}"}
        return httpx.post(f"{self.stack.url}{path}", headers=headers, json=body, timeout=30)

    def call(self, function: str, **arguments: Any) -> Any:
        answer = self.request(f"/rest/v1/rpc/{function}", {f"p_{name}": value for name, value in arguments.items()})
        assert answer.is_success, answer.text
        return answer.json()

    def seal(self, address: str, channel: str = "webhook", **more: str) -> httpx.Response:
        return self.request("/functions/v1/notify", {"org": self.org, "channel": channel, "address": address, **more})

    def seal_secret(self, secret: str) -> str:
        answer = self.request("/functions/v1/notify", {"org": self.org, "channel": "webhook", "secret": secret})
        return str(answer.raise_for_status().json()["secret"])

    def rule(self, address: str, **spec: Any) -> str:
        sealed = self.seal(address, secret=SECRET)
        assert sealed.is_success, sealed.text
        events = ["job.awaiting_approval", "job.failed"]
        whole = {"channel": "webhook", "events": events, **sealed.json(), **spec}
        return str(self.call("create_notification_rule", org=self.org, spec=whole)["id"])


def sign_up(stack: RunningStack) -> Person:
    answer = httpx.post(
        f"{stack.url}/auth/v1/signup",
        headers={"apikey": stack.publishable_key},
        json={"email": f"{secrets.token_hex(6)}@example.org", "password": "correct-horse-battery"},
        timeout=30,
    )
    person = Person(stack, answer.json()["access_token"])
    person.org = person.call("create_organization", name="Faults", slug=f"f{secrets.token_hex(6)}")["id"]
    for name in ("one", "two"):
        person.call("create_module", org=person.org, group_path="a", name=name, spec={"approvals_required": 1})
    return person


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    with run_receiver() as running:
        yield running


@pytest.fixture(scope="module")
def open_stack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningStack]:
    """A stack that may notify receivers on this machine; its parts are killed, and recover."""
    home = _open_folder(tmp_path_factory.mktemp("open"))
    with start_stack(home, "--no-demo", "--no-dashboard", **ALLOWED) as stack:
        yield stack


class AppOwner(ApiPerson):
    """Somebody with runners that claim, as programs of the test."""

    def session(self, runner: Any) -> str:
        body = {"worker_id": runner.id, "worker_token": runner.token, "instance": "one", "boot_id": str(uuid.uuid4())}
        answer = httpx.post(f"{self.stack.url}/functions/v1/worker-session", json=body, timeout=60)
        assert answer.is_success, answer.text
        token = str(answer.json()["access_token"])
        self.call(token, "worker_heartbeat", p_status="ONLINE", p_version="1.0.0", p_running=[])
        return token

    def claim(self, token: str) -> list[dict[str, Any]]:
        jobs: list[dict[str, Any]] = self.call(token, "worker_claim", p_request_id=str(uuid.uuid4()), p_slots=1)["jobs"]
        return jobs

    def call(self, token: str, name: str, **arguments: Any) -> Any:
        headers = {"apikey": self.stack.publishable_key, "authorization": f"Bearer {token}"}
        answer = httpx.post(f"{self.stack.url}/rest/v1/rpc/{name}", json=arguments, headers=headers, timeout=60)
        assert answer.is_success, answer.text
        return answer.json()


def connect(stack: RunningStack) -> psycopg.Connection[Any]:
    return psycopg.connect(stack.db_url, autocommit=True, connect_timeout=60)


def two_events(stack: RunningStack, person: Person, count: int) -> None:
    """Jobs that wait for approval, are released and fail: two events each, in this order."""
    module = person.call("list_modules", org=person.org)["rows"][0]["id"]
    for _ in range(count):
        job = person.call("enqueue_job", org=person.org, type="APPLY", module=module)["id"]
        with connect(stack) as connection:
            connection.execute("update public.provision_jobs set status = 'QUEUED' where id = %s", [job])
            connection.execute("select private.end_job(%s, 'FAILED', 'failed', 'system', null, 'system', 'x')", [job])


def open_deliveries(person: Person) -> int:
    """Count what was not delivered yet, of somebody's organisation; -1 where nobody can say."""
    count = "select count(*) from public.deliveries where org_id = %s and status <> 'DELIVERED'"
    try:
        with connect(person.stack) as connection:
            row = connection.execute(count, [person.org]).fetchone()
    except psycopg.Error:
        return -1
    return int(row[0]) if row else -1


def is_signed(one: Received) -> bool:
    said = b".".join([one.headers["webhook-id"].encode(), one.headers["webhook-timestamp"].encode(), one.body])
    expected = base64.b64encode(hmac.new(SECRET.encode(), said, hashlib.sha256).digest()).decode()
    return one.headers["webhook-signature"] == f"v1,{expected}"


def check_all(person: Person, receiver: Receiver, path: str, jobs: int) -> None:
    """Each event came, known by its id; those of a job in order; each is signed."""
    with connect(person.stack) as connection:
        told = connection.execute(
            "select subject, array_agg(event_id order by id) from public.deliveries where org_id = %s group by rule_id, subject",
            [person.org],
        ).fetchall()
    assert len({subject for subject, _ in told}) == jobs
    came = list(dict.fromkeys(receiver.accepted(path)))
    for _, ids in told:
        assert [each for each in came if each in ids] == ids
    assert all(is_signed(each) for each in receiver.received)


def test_no_event_is_lost_when_the_receiver_or_a_part_of_the_stack_fails(
    receiver: Receiver, open_stack: RunningStack
) -> None:
    stack = open_stack
    person = sign_up(stack)
    person.rule(f"{receiver.url}/first"), person.rule(f"{receiver.url}/second")
    two_events(stack, person, 3)
    wait_until(lambda: open_deliveries(person) == 0)
    # Nobody failed: exactly once for each rule and event, without any need to know a repetition.
    assert sorted(receiver.accepted("/first")) == sorted(set(receiver.accepted("/first")))
    assert len(receiver.accepted("/second")) == 6
    # Not before: a sender that is slow only because the machine is would be taken for a dead one.
    with connect(stack) as connection:
        connection.execute(HURRY)
    receiver.status = 500
    two_events(stack, person, 3)
    wait_until(lambda: sum(each.status == 500 for each in receiver.received) > 6)
    receiver.slow.clear()
    for part in ("functions", "gateway", "postgres"):
        stack.kill_part(part)
        two_events(stack, person, 1)
    receiver.status = 200
    receiver.slow.set()
    wait_until(lambda: open_deliveries(person) == 0, timeout_seconds=180)
    check_all(person, receiver, "/first", 9)
    check_all(person, receiver, "/second", 9)


def test_a_refused_report_of_a_pull_request_reaches_its_provider_later(open_stack: RunningStack) -> None:
    person, head = sign_up(open_stack), "a" * 40
    source = {"url": "https://git.example.com/infra/edge.git", "ref": "main"}
    person.call(
        "create_module", org=person.org, group_path="a", name="git", spec={"source_kind": "git", "source": source}
    )
    sealed = {"webhook_secret": person.seal_secret(SECRET), "token": person.seal_secret("token-of-the-test")}
    body = pull_body(7, head)
    with connect(open_stack) as connection:
        connection.execute(HURRY)
    with run_git_provider() as provider:
        provider.answers += [(503, {}, ""), (429, {"retry-after": "1"}, "")]
        spec = {"provider": "gitea", "url": source["url"], "base_url": f"{provider.url}/api/v1", **sealed}
        made = person.call("connect_repository", org=person.org, spec=spec)
        address = f"{open_stack.url}/functions/v1/git/{made['id']}"
        headers = gitea(SECRET, body, "pull_request")
        assert httpx.post(address, content=body, headers=headers, timeout=60).status_code == 202
        wait_until(lambda: open_deliveries(person) == 0, timeout_seconds=300, every_seconds=0.5)
    # The poll reads open pull requests meanwhile, and may meet the refusals first.
    reports = [each for each in provider.requests if each.method == "POST"]
    assert {each.path for each in reports} == {f"/api/v1/repos/infra/edge/statuses/{head}"}
    assert len(provider.requests) > 2, "two were refused"
    last = reports[-1]
    assert (last.body["state"], last.headers["authorization"]) == ("pending", "token token-of-the-test")


def test_a_github_app_is_created_by_its_code_reports_and_gives_tokens_to_the_leaseholder(
    open_stack: RunningStack,
) -> None:
    person, state, functions = AppOwner(open_stack), "a-state", f"{open_stack.url}/functions/v1/git"
    with run_github() as github:
        digest = hashlib.sha256(state.encode()).hexdigest()
        app = person.rpc("start_git_app", p_org=person.org_id, p_state_hash=digest, p_url=github.url)["id"]

        def created(said: str, token: str = person.token) -> httpx.Response:
            headers = {"authorization": f"Bearer {token}"}
            body = {"app": app, "code": CODE, "state": said}
            return httpx.post(f"{functions}/apps", json=body, headers=headers, timeout=60)

        assert created("another state").json()["code"] == "RY404"
        assert created(state, AppOwner(open_stack).token).json()["code"] == "RY404", (
            "somebody else's browser has the state"
        )
        assert github.requests == []
        answer = created(state)
        page = f"{github.url}/apps/runyard-test/installations/new"
        assert (answer.status_code, answer.json()) == (200, {"install_url": page})
        assert created(state).json()["code"] == "RY404", "a code works once"
        (shown,) = person.rpc("list_git_apps", p_org=person.org_id)
        assert (shown["slug"], shown["number"], "BEGIN" in str(shown)) == ("runyard-test", APP, False)

        def deliver(secret: str = WEBHOOK_SECRET, name: str = "edge") -> httpx.Response:
            repository = {"clone_url": f"{github.url}/Infra/{name}.git"}
            body = json.dumps(
                {**json.loads(pull_body(7, "a" * 40)), "repository": repository, "installation": {"id": INSTALLATION}}
            ).encode()
            headers = github_headers(secret, body, "pull_request")
            return httpx.post(f"{functions}/{app}", content=body, headers=headers, timeout=60)

        source = {"url": f"{github.url}/Infra/edge.git", "ref": "main"}
        spec = {"source_kind": "git", "source": source}
        person.rpc("create_module", p_org=person.org_id, p_group_path="a", p_name="git", p_spec=spec)
        assert deliver("another secret").status_code == 401
        assert deliver(name="other").json() == {"verdict": "IGNORED", "reason": "No module uses this repository."}
        assert deliver().status_code == 202
        (connection,) = person.rpc("list_git_connections", p_org=person.org_id)
        assert (connection["app_id"], connection["has_token"]) == (app, True)
        wait_until(lambda: any("/statuses/" in path for path, _ in github.requests), timeout_seconds=300)

        runner = person.register(is_assigned_to_all_modules=True)
        session = person.session(runner)
        (job,) = person.claim(session)
        asked = {"job": {"id": job["id"], "attempt": job["attempt"]}}

        def token(bearer: str, body: dict[str, Any]) -> httpx.Response:
            headers = {"authorization": f"Bearer {bearer}"}
            return httpx.post(f"{functions}/token", json=body, headers=headers, timeout=60)

        given = token(session, asked).json()
        assert (given["username"], given["token"][:4]) == ("x-access-token", "ghs_")
        path, body = github.requests[-1]
        assert (path.endswith("/access_tokens"), body) == (
            True,
            {"repositories": ["edge"], "permissions": {"contents": "read"}},
        )
        other = person.session(person.register())
        assert token(other, asked).json()["code"] == "RY410"
        assert not token(person.token, asked).is_success
        person.rpc("remove_git_app", p_app=app)
        assert token(session, asked).json() == {"token": None}
        assert deliver().status_code == 404


@pytest.mark.slow
def test_a_schedule_that_was_due_while_the_project_was_down_runs_once(
    receiver: Receiver, shared_tmp_path: Path
) -> None:
    with start_stack(shared_tmp_path, "--no-demo", "--no-dashboard", **ALLOWED) as stack:
        person = sign_up(stack)
        for path in ("a/one", "a/two"):
            spec = {"path": path, "type": "DRIFT", "cron": "*/5 * * * *", "zone": "Europe/Lisbon"}
            person.call("create_schedule", org=person.org, spec=spec)
        with connect(stack) as connection:
            connection.execute("update public.schedules set next_at = now() + interval '3 seconds'")
        os.kill(stack.process.pid, signal.SIGKILL)
        stack.process.wait(180)
    with start_stack(shared_tmp_path, "--no-demo", "--no-dashboard", **ALLOWED) as again, connect(again) as connection:
        # As if it had been an hour, in which each would have been due twelve times.
        connection.execute("update public.schedules set next_at = next_at - interval '1 hour' where next_at < now()")
        count = "select count(*) from public.provision_jobs where created_by_label like 'schedule (%'"
        wait_until(lambda: connection.execute(count).fetchone() == (2,), timeout_seconds=180)
        swept = "select ran_at from private.clocks where name = 'swept'"
        before = connection.execute(swept).fetchone()
        wait_until(lambda: connection.execute(swept).fetchone() != before, timeout_seconds=180)
        assert connection.execute(count).fetchone() == (2,)


@pytest.mark.parametrize(
    ("address", "words"),
    [
        ("https://localhost/hook", "public https address"),
        ("https://10.0.0.5/hook", "RUNYARD_ALLOW_PRIVATE_RECEIVERS=true"),
        ("https://[::1]/hook", "public https address"),
        ("https://metadata.internal/hook", "public https address"),
        ("http://hooks.example.org/hook", "public https address"),
        ("nonsense", "not an address"),
        ("https://user:password@hooks.example.org/x", "no user name or password"),
    ],
)
def test_an_address_inside_the_network_is_refused(inside: Person, address: str, words: str) -> None:
    answer = inside.seal(address)
    assert answer.status_code == 400
    assert words in answer.json()["message"]


@pytest.fixture(scope="module")
def inside(running_stack: RunningStack) -> Person:
    """A person of a stack that lets nothing inside."""
    return sign_up(running_stack)


def test_only_admins_seal_addresses_and_an_invalid_mail_address_is_refused(inside: Person) -> None:
    stranger = Person(inside.stack, "nobody", inside.org)
    assert stranger.seal("https://hooks.example.org/x").status_code == 403
    mail = inside.seal("oncall@example.org", "mail").json()
    assert (mail["address_hint"], mail["address"][:3]) == ("oncall@example.org", "s1.")
    assert inside.seal("no mail", "mail").status_code == 400


def test_the_log_of_deliveries_explains_a_redirecting_receiver_and_a_kept_mail(
    receiver: Receiver, open_stack: RunningStack
) -> None:
    stack = open_stack
    person = sign_up(stack)
    itself = person.seal(f"{stack.url}/functions/v1/notify")
    assert (itself.status_code, "this project itself" in itself.json()["message"]) == (400, True)
    receiver.status = 302
    hook = person.rule(f"{receiver.url}/hook")
    mail = person.call(
        "create_notification_rule",
        org=person.org,
        spec={"channel": "mail", "events": ["job.failed"], **person.seal("oncall@example.org", "mail").json()},
    )["id"]
    person.call("test_notification_rule", rule=hook), person.call("test_notification_rule", rule=mail)

    def log() -> dict[str, dict[str, Any]]:
        return {row["channel"]: row for row in person.call("list_deliveries", org=person.org)["rows"]}

    wait_until(lambda: log()["webhook"]["note"] and log()["mail"]["status"] == "KEPT")
    assert (log()["webhook"]["http_status"], log()["webhook"]["status"]) == (302, "PENDING")
    assert "redirects are not followed" in log()["webhook"]["note"]
    assert {each.path for each in receiver.received} == {"/hook"}
    assert "no mail service is configured" in log()["mail"]["note"].lower()
