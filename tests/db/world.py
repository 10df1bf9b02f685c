"""The people, runners and modules of a test, made through the functions that everybody else calls."""

import hashlib
import json
import uuid
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import psycopg
import pytest
from psycopg import sql
from psycopg.types.json import Jsonb

from tests.support.database import Database, become
from tests.support.waiting import wait_until

TOKEN_HASH = "$2b$10$" + "a" * 53
ROLE = "arn:aws:iam::123456789012:role/runyard"
VERSION = "1.0.0"
# The facts that a runner finds on its machine and reports, as every real one does.
ENGINES = {"tofu": "1.10.3", "terraform": "1.9.0", "pulumi": "3.140.0"}


@contextmanager
def refused(code: str, words: str = "") -> Iterator[pytest.ExceptionInfo[psycopg.Error]]:
    """Expect an error with this SQLSTATE and these words in its message, which must be one that a person can read."""
    with pytest.raises(psycopg.Error) as caught:
        yield caught
    assert caught.value.sqlstate == code, f"{caught.value.sqlstate}: {caught.value}"
    if code.startswith("RY"):
        assert caught.value.diag.message_primary, "an error describes what happened"
        assert caught.value.diag.message_hint, "and what to do next"
        assert words in str(caught.value.diag.message_primary)


def sha256(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def this(job: dict[str, Any], **more: Any) -> dict[str, Any]:
    """The arguments that name an attempt, with others."""
    return {"p_job": job["id"], "p_attempt": job["attempt"], **more}


@dataclass
class Caller:
    """Somebody with a connection: a person, a runner, an edge function."""

    connection: psycopg.Connection[Any]

    def call(self, function: str, **arguments: Any) -> Any:
        """Call a public function by name, as REST would."""
        names = sql.SQL(", ").join(
            sql.SQL("{} => {}").format(sql.Identifier(name), sql.Placeholder(name)) for name in arguments
        )
        query = sql.SQL("select public.{}({})").format(sql.Identifier(function), names)
        values = {key: Jsonb(value) if isinstance(value, dict | list) else value for key, value in arguments.items()}
        row = self.connection.execute(query, values).fetchone()
        return row[0] if row else None

    def rows(self, query: str, *values: Any) -> list[Any]:
        """All rows; single columns as plain values."""
        found = self.connection.execute(query, values).fetchall()
        return [row[0] if len(row) == 1 else row for row in found]

    def one(self, query: str, *values: Any) -> Any:
        """The only row, or its only value."""
        found = self.rows(query, *values)
        assert len(found) == 1, f"{len(found)} rows"
        return found[0]


@dataclass
class User(Caller):
    id: str
    email: str


@dataclass
class Runner(Caller):
    """A connected process of a runner."""

    worker_id: str
    session_id: str
    instance_id: str
    boot_id: str
    token_id: str
    instance: str

    def heartbeat(
        self, status: str = "ONLINE", running: list[dict[str, int]] | None = None, **more: Any
    ) -> dict[str, Any]:
        answer: dict[str, Any] = self.call(
            "worker_heartbeat", p_status=status, p_version=more.pop("version", VERSION), p_running=running or [], **more
        )
        return answer

    def claim(self, slots: int = 1, request: str | None = None) -> list[dict[str, Any]]:
        answer = self.call("worker_claim", p_request_id=request or str(uuid.uuid4()), p_slots=slots)
        jobs: list[dict[str, Any]] = answer["jobs"]
        return jobs

    def claim_one(self) -> dict[str, Any]:
        jobs = self.claim(1)
        assert len(jobs) == 1, f"claimed {len(jobs)} jobs"
        return jobs[0]

    def report(self, job: dict[str, Any], phase: str, **more: Any) -> dict[str, Any]:
        answer: dict[str, Any] = self.call(
            "worker_report", p_job=job["id"], p_attempt=job["attempt"], p_phase=phase, **more
        )
        return answer

    def finish(self, job: dict[str, Any], status: str = "SUCCEEDED", **more: Any) -> dict[str, Any]:
        answer: dict[str, Any] = self.call(
            "worker_finish", p_job=job["id"], p_attempt=job["attempt"], p_status=status, **more
        )
        return answer

    def append(self, job: dict[str, Any], *chunks: tuple[int, str], is_late: bool = False) -> dict[str, Any]:
        answer: dict[str, Any] = self.call(
            "worker_append_logs",
            p_job=job["id"],
            p_attempt=job["attempt"],
            p_chunks=[{"seq": seq, "step": "plan", "body": body} for seq, body in chunks],
            p_is_late=is_late,
        )
        return answer


@dataclass
class Organization:
    """An organisation with its owner, and short ways to fill it."""

    world: "World"
    id: str
    owner: User
    modules: dict[str, str] = field(default_factory=dict)

    def module(self, path: str, **spec: Any) -> str:
        """A module by its full path."""
        group, _, name = path.rpartition("/")
        made = self.owner.call("create_module", p_org=self.id, p_group_path=group, p_name=name, p_spec=spec)
        self.modules[path] = made["id"]
        return str(made["id"])

    def use_shared(self, use: str) -> None:
        """Set when shared runners may claim its jobs: NEVER, NONE_FITS or NONE_AVAILABLE."""
        self.owner.call("set_shared_runners", p_org=self.id, p_use=use)

    def group(self, path: str, **more: Any) -> dict[str, Any]:
        made: dict[str, Any] = self.owner.call("upsert_group", p_org=self.id, p_path=path, **more)
        return made

    def member(self, role: str) -> User:
        """A new person with this role, who came by invitation."""
        user = self.world.user()
        secret = sha256(user.email)
        made = self.owner.call("invite_member", p_org=self.id, p_email=user.email, p_role=role, p_token_hash=secret)
        user.call("accept_invitation", p_invitation=made["id"], p_token_hash=secret)
        return user

    def account(self, role: str | None = None, **spec: Any) -> dict[str, Any]:
        """A service account with a secret; with a role it may act."""
        whole = {"name": f"sa-{uuid.uuid4().hex[:8]}", "role": role, **spec}
        made: dict[str, Any] = self.owner.call(
            "create_service_account", p_org=self.id, p_spec=whole, p_secret_hash=TOKEN_HASH, p_secret_hint="abcd"
        )
        return made

    def acting(self, account: dict[str, Any]) -> Caller:
        """A service account with the token that the edge function gives it now."""
        used = self.world.service.call("use_service_account", p_account=account["id"])
        claims = {"sub": account["id"], "org": self.id, "account_version": used["version"]}
        return self.world.caller("authenticated", **claims)

    def worker(self, name: str, **options: Any) -> str:
        """A self-hosted runner's record."""
        made = self.owner.call(
            "register_worker",
            p_org=self.id,
            p_name=name,
            p_token_hash=TOKEN_HASH,
            p_token_hint="abcd",
            p_options=options,
        )
        return str(made["id"])

    def runner(self, name: str, instance: str = "one", **options: Any) -> Runner:
        """A registered runner with a connected process."""
        return self.world.connect_runner(self.worker(name, **options), instance)

    def cloud_identity(self, *, is_tested: bool = True, **spec: Any) -> str:
        """An AWS role to deploy with; tested, unless requested otherwise."""
        whole = {"name": "aws", "role_arn": ROLE, "regions": ["eu-west-1", "us-east-1"], **spec}
        identity = str(self.owner.call("create_cloud_identity", p_org=self.id, p_spec=whole)["id"])
        if is_tested:
            tested = "update public.cloud_identities set verified_at = now() where id = %s"
            self.world.owner.connection.execute(tested, [identity])
        return identity

    def enqueue(self, module: str, job_type: str = "PLAN", **options: Any) -> int:
        """A job for a module, by its path."""
        module_id = self.modules.get(module) or self.module(module)
        made = self.owner.call("enqueue_job", p_org=self.id, p_type=job_type, p_module=module_id, p_options=options)
        return int(made["id"])


@dataclass
class World:
    """A test's database, seen as its owner and as every caller."""

    database: Database
    owner: Caller
    service: Caller

    @classmethod
    def open(cls, database: Database) -> "World":
        return cls(database, Caller(database.connect("postgres")), Caller(database.connect("service_role")))

    def scaling_inputs(self) -> Any:
        """Return the planner's inputs for all organisations."""
        return self.owner.one("select private.scaling_inputs(array(select id from public.organizations))")

    def decide_scaling(self, worker: str, count: int, reason: str, *, is_dry: bool = False) -> None:
        """Record a planner's decision."""
        self.owner.one("select private.record_scaling_decision(%s, %s, %s, '{}', %s)", worker, count, reason, is_dry)

    def caller(self, role: str, **claims: Any) -> Caller:
        return Caller(self.database.connect(role, claims))

    def user(self, email: str | None = None) -> User:
        user_id = str(uuid.uuid4())
        email = email or f"{user_id[:8]}@example.org"
        self.owner.connection.execute("insert into auth.users (id, email) values (%s, %s)", [user_id, email])
        return User(self.database.connect("authenticated", {"sub": user_id, "email": email}), user_id, email)

    def organization(self, slug: str | None = None) -> Organization:
        owner = self.user()
        slug = slug or f"org-{owner.id[:8]}"
        made = owner.call("create_organization", p_name=slug.title(), p_slug=slug)
        return Organization(self, made["id"], owner)

    def shared_worker(self, name: str = "shared", **options: Any) -> str:
        made = self.service.call(
            "ensure_shared_worker", p_name=name, p_token_hash=TOKEN_HASH, p_token_hint="abcd", p_options=options
        )
        return str(made["id"])

    def connect_runner(self, worker_id: str, instance: str = "one", boot_id: str | None = None, **facts: Any) -> Runner:
        """Open a session as the edge function does, and send one heartbeat."""
        tokens = self.service.call("worker_token_hashes", p_worker=worker_id)
        boot_id = boot_id or str(uuid.uuid4())
        opened = self.service.call(
            "open_worker_session",
            p_worker=worker_id,
            p_instance=instance,
            p_boot_id=boot_id,
            p_facts={"hostname": "host", "version": VERSION, "clouds": ["aws"], "engines": ENGINES, **facts},
            p_token=tokens[0]["token_id"],
        )
        claims = {"sub": worker_id, "sid": opened["session_id"], "org": opened["org_id"]}
        connection = self.database.connect("worker", claims)
        runner = Runner(
            connection,
            worker_id,
            opened["session_id"],
            opened["instance_id"],
            boot_id,
            tokens[0]["token_id"],
            instance,
        )
        runner.heartbeat()
        return runner

    def proof(self, account: str) -> dict[str, Any]:
        """Return the account and version that the edge function passes on from the token that a service account would get now."""
        query = "select credential_version from public.service_accounts where id = %s"
        return {"p_service_account": account, "p_account_version": self.owner.one(query, account)}

    def act_as(self, caller: Caller, role: str, **claims: Any) -> None:
        """Continue a connection as somebody else."""
        become(caller.connection, role, claims)

    # ------------------------------------------------------------------ time, which tests do not wait for

    def up_for_long(self) -> None:
        """As if the first sweep since the server's start were an hour ago: the grace for leases is over."""
        self.owner.connection.execute(
            "insert into private.first_sweeps values (pg_postmaster_start_time(), now() - interval '1 hour') "
            "on conflict (server_started_at) do update set swept_at = excluded.swept_at"
        )

    def silence(self, runner: Runner, seconds: int = 61) -> None:
        """As if the instance's last heartbeat, and the leases it holds, were so long ago."""
        self.owner.connection.execute(
            "update private.heartbeats set last_seen_at = now() - make_interval(secs => %s) where instance_id = %s",
            [seconds, runner.instance_id],
        )
        self.owner.connection.execute(
            "update private.live_jobs set lease_until = least(lease_until, now() - interval '1 second') "
            "where instance_id = %s",
            [runner.instance_id],
        )

    def lose(self, runner: Runner) -> dict[str, Any]:
        """Make the runner silent for longer than its leases, and run the sweep."""
        self.up_for_long()
        self.silence(runner)
        return self.sweep()

    def end_backoff(self, job: int) -> None:
        self.owner.connection.execute("update private.live_jobs set not_before_at = now() where job_id = %s", [job])
        self.sweep()

    def given(self, job: int, kind: str = "input") -> dict[str, Any]:
        """The values of the variables that a job was given."""
        found = self.owner.rows(
            "select v.name, v.value from private.job_variables as g join public.variables as v "
            "on v.id = any (g.variables) where g.job_id = %s and v.kind = %s",
            job,
            kind,
        )
        return dict(found)

    def sweep(self) -> dict[str, Any]:
        answer: dict[str, Any] = self.service.call("sweep")
        return answer

    def during(self, by: Caller, change: Callable[[], Any], call: Callable[[], Any]) -> Future[Any]:
        """Return the result of a call that began before somebody's change was committed, and waited for the commit."""
        with ThreadPoolExecutor(1) as pool, by.connection.transaction():
            change()
            answer = pool.submit(call)
            wait_until(self.is_anybody_waiting)
        return answer

    # ------------------------------------------------------------------ looking

    def is_anybody_waiting(self) -> bool:
        """Whether somebody waits for a lock in this database."""
        query = "select from pg_locks as l join pg_stat_activity as a using (pid) where not l.granted"
        return bool(self.owner.one(f"select exists ({query} and a.datname = current_database())"))

    def job(self, job: int) -> dict[str, Any]:
        found: dict[str, Any] = self.owner.one("select to_jsonb(j) from public.provision_jobs as j where id = %s", job)
        return found

    def status(self, job: int) -> str:
        return str(self.job(job)["status"])

    def events(self, job: int) -> list[str]:
        return self.owner.rows("select event from public.job_events where job_id = %s order by id", job)

    def replayed(self, job: int) -> str | None:
        """The status that a job's events lead to."""
        steps = "select from_status, to_status from public.job_events where job_id = %s order by id"
        return replay(self.owner.rows(steps, job))

    def worker_row(self, worker_id: str) -> dict[str, Any]:
        found: dict[str, Any] = self.owner.one("select to_jsonb(w) from public.workers as w where id = %s", worker_id)
        return found

    def wake_ups(self, topic: str, event: str | None = None) -> list[dict[str, Any]]:
        return self.owner.rows(
            "select payload from realtime.messages where topic = %s and (%s::text is null or event = %s) order by inserted_at",
            topic,
            event,
            event,
        )


def replay(events: list[tuple[str | None, str | None]]) -> str | None:
    """The status that a job's events lead to; every step must begin where the last one ended."""
    status: str | None = None
    for before, after in events:
        if after is not None:
            assert before == status, f"event from {before}, but the job was {status}"
            status = after
    return status


def as_json(value: Any) -> str:
    return json.dumps(value, sort_keys=True, default=str)
