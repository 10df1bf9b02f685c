"""Every caller tries every function: the list comes from the catalogue, so a new one fails until it is listed here."""

import re
import uuid
from dataclasses import dataclass
from typing import Any

import psycopg
import pytest

from tests.db.call_arguments import ARGUMENTS, PULL_REQUEST, REPOSITORY, RULE
from tests.db.world import Caller, Organization, Runner, World, sha256
from tests.support.database import Database

RANKS = ["viewer", "operator", "admin", "owner"]
LEAST_ROLE = {"Members.": "viewer", "Operators": "operator", "Admins": "admin", "Owners.": "owner"}


@dataclass
class Site:
    """One organisation full of things, a stranger, and a person or process for every kind of caller."""

    world: World
    org: Organization
    stranger: Organization
    callers: dict[str, Caller]
    things: dict[str, Any]


def build(world: World) -> Site:
    org, stranger = world.organization(), world.organization()
    org.module("a/b", approvals_required=1)
    org.module("a/c")
    holder = org.runner("holder", is_assigned_to_all_modules=True, capacity=3)
    other, revoked = org.runner("other"), org.runner("revoked")
    foreign = stranger.runner("foreign")
    org.owner.call("revoke_worker_token", p_token=revoked.token_id)
    org.enqueue("a/c", "APPLY")
    job = holder.claim_one()
    holder.append(job, (1, "line\n"))
    holder.call("worker_state_put", p_job=job["id"], p_attempt=1, p_body='{"serial": 1}')
    unapproved = ask_for_an_apply(org)
    org.owner.call("approve_job", p_job=org.enqueue("a/b", "APPLY"), p_decision="reject")
    org.owner.call("comment_on_job", p_job=unapproved, p_body="why?")
    org.owner.call("lock_module", p_module=org.module("a/d"), p_reason="frozen")
    world.service.call("publish_release", p_spec={"version": "1.0.0"})
    things = fill(world, org, holder, job, unapproved)
    # Trying every function takes longer than a lease.
    world.owner.connection.execute("update private.live_jobs set lease_until = now() + interval '1 day'")
    callers: dict[str, Caller] = {role: org.member(role) for role in RANKS[:-1]}
    callers |= {f"account {role}": org.acting(org.account(role)) for role in RANKS[:-1]}
    callers |= {"owner": org.owner, "stranger": stranger.owner, "anon": world.caller("anon"), "service": world.service}
    callers |= {"holder": holder, "other worker": other, "revoked worker": revoked, "foreign worker": foreign}
    callers["executor"] = world.caller(
        "executor", sub=holder.worker_id, sid=holder.session_id, job=str(job["id"]), att="1"
    )
    callers["engine"] = world.caller("engine", sub=holder.worker_id, sid=holder.session_id, job=str(job["id"]), att="1")
    return Site(world, org, stranger, callers, things)


def ask_for_an_apply(org: Organization) -> int:
    """A job that waits for approval, requested by none of the callers: the requester does not approve."""
    asked = org.member("operator").call("enqueue_job", p_org=org.id, p_type="APPLY", p_module=org.modules["a/b"])
    return int(asked["id"])


def fill(world: World, org: Organization, holder: Runner, job: dict[str, Any], unapproved: int) -> dict[str, Any]:
    """One of everything, by the name of the argument that requires it."""
    org.owner.call("grant_outputs", p_module=org.modules["a/c"], p_reader=org.modules["a/b"])
    ends = {"p_consumer": org.modules["a/c"], "p_producer": org.modules["a/b"]}
    org.owner.call("set_dependency", **ends, p_options={"bindings": {"x": "y"}})
    identity = org.cloud_identity()
    trust = {"name": "sa", "trusts": [{"issuer": "https://i.example", "audience": "x", "bound_claims": {"sub": "ci"}}]}
    account = org.owner.call("create_service_account", p_org=org.id, p_spec=trust)["id"]
    invitation = org.owner.call(
        "invite_member", p_org=org.id, p_email="g@example.org", p_role="viewer", p_token_hash=sha256("s")
    )["id"]
    org.owner.call("assign_worker", p_worker=holder.worker_id, p_path="a")
    rollout = world.owner.one("insert into public.rollouts (org_id, version) values (%s, '1.0.0') returning id", org.id)
    world.owner.connection.execute(
        "insert into public.scaling_decisions (org_id, worker_id, from_count, to_count, reason) values (%s, %s, 0, 1, 'x')",
        [org.id, holder.worker_id],
    )
    schedule = org.owner.call(
        "create_schedule", p_org=org.id, p_spec={"path": "a/c", "type": "DRIFT", "cron": "0 2 * * *"}
    )["id"]
    rule = org.owner.call("create_notification_rule", p_org=org.id, p_spec=RULE)["id"]
    delivery = org.owner.call("test_notification_rule", p_rule=rule)["id"]
    connection = org.owner.call("connect_repository", p_org=org.id, p_spec=REPOSITORY)["id"]
    world.service.call("receive_git_delivery", p_connection=connection, p_delivery=PULL_REQUEST)
    org.owner.call("set_module_git", p_module=org.modules["a/c"], p_spec={})
    team = org.owner.call("create_team", p_org=org.id, p_name="sre")["id"]
    org.owner.call("set_team_member", p_team=team, p_user=org.member("viewer").id, p_is_member=True)
    org.owner.call("set_role", p_org=org.id, p_name="unused", p_verbs="{job.plan}")
    bound = org.owner.call("grant_role", p_org=org.id, p_path="a/b", p_role="planner", p_kind="team", p_subject=team)[
        "id"
    ]
    made_app = org.owner.call("start_git_app", p_org=org.id, p_state_hash=sha256("x"))["id"]
    login = {"p_host": "git.example.com", "p_login": "ann"}
    org.owner.call("link_git_login", p_org=org.id, p_user=org.owner.id, **login)
    made = org.owner.call("start_set", p_org=org.id, p_type="DRIFT", p_path="a")["id"]
    org.owner.call("set_update_policy", p_org=org.id, p_spec={"mode": "OFF"})
    template = "organization:{organization_id}:workspace:{workspace}:phase:{phase}"
    org.owner.call("set_identity_subject", p_org=org.id, p_template=template)
    spec = {"kind": "custom", "name": "registry", "audience": "x"}
    attached = org.owner.call("attach_identity", p_org=org.id, p_path="a", p_spec=spec)["id"]
    rules = {"name": "tags", "level": "advisory", "files": {"a.rego": "package main"}}
    policy = org.owner.call("attach_policy", p_org=org.id, p_path="a", p_spec=rules)["id"]
    world.owner.connection.execute(
        "insert into public.policy_checks select %s, id, org_id, 1, path, name, level, bundle_sha256, 'failed'"
        " from public.policy_sets where id = %s",
        [job["id"], policy],
    )
    org.owner.call("create_sealing_key", p_org=org.id, p_public_key="B" * 42 + "A=")
    set_here = [{"kind": "input", "name": "size", "value": 1}]
    variable = org.owner.call("set_variables", p_org=org.id, p_path="a", p_variables=set_here)[0]["id"]
    keep = {"p_job": job["id"], "p_attempt": 1, "p_number": 1, "p_body": '{"serial": 3}'}
    holder.call("worker_state_keep", **keep)
    kept = org.owner.call("kept_states", p_job=job["id"])[0]["id"]
    return {
        **ends,
        "p_org": org.id,
        "p_worker": holder.worker_id,
        "p_module": org.modules["a/c"],
        "p_group": org.group("empty")["id"],
        "p_job": job["id"],
        "p_attempt": 1,
        "p_identity": identity,
        "p_cloud_identity": identity,
        "p_job_identity": attached,
        "p_variable": variable,
        "p_policy": policy,
        "p_account": account,
        "p_invitation": invitation,
        "p_rollout": rollout,
        "p_schedule": schedule,
        "p_rule": rule,
        "p_delivery": delivery,
        "p_connection": connection,
        "p_app": made_app,
        "p_lease": str(uuid.uuid4()),
        "p_set": made,
        "p_token": holder.token_id,
        "p_session": holder.session_id,
        "p_user": org.member("viewer").id,
        "p_id": kept,
        "p_run": org.enqueue("a/b"),
        "p_slug": world.owner.one("select slug from public.organizations where id = %s", org.id),
        "p_upload": org.owner.call("start_upload", p_module=org.modules["a/c"])["id"],
        "p_team": team,
        "p_binding": bound,
        "p_reader": org.modules["a/b"],
        "unapproved": unapproved,
        "modules": f"{{{org.modules['a/c']}}}",
        "workers": f"{{{holder.worker_id}}}",
    }


@pytest.fixture(scope="module")
def site(postgres_server: Any, module_database: str) -> Any:
    database = Database(postgres_server, module_database)
    yield build(World.open(database))
    database.close()


# What a call needs beyond the things that its argument names say.
# Calls that require no role: they concern the caller, or prove themselves by a secret.
ENGINES = ("engine", "executor", "worker")
PROCESSES = ("anon", "service", "holder", "executor", "engine")
FOR_EVERYBODY = {
    "my_organizations", "organization_makers", "create_organization", "accept_invitation", "device_login", "decide_device_login",
    "create_personal_token", "my_personal_tokens", "revoke_personal_token", "allow_sign_in_link",
    "recovery_codes_left", "set_recovery_codes", "use_recovery_code",
}  # fmt: skip
WITH_A_SECRET = {
    "allow_sign_in_link",
    "accept_invitation",
    "device_login",
    "decide_device_login",
    "revoke_personal_token",
}
# Calls whose runner is named by the session, so that any live runner may make them.
FOR_ANY_WORKER = {"worker_heartbeat", "worker_claim", "worker_close_session", "worker_recover"}


def functions(world: World) -> dict[str, dict[str, Any]]:
    """Every public function: its arguments without defaults, the roles that may execute it, and its comment."""
    found = world.owner.rows(
        """select p.proname, p.proargnames[1:p.pronargs - p.pronargdefaults], obj_description(p.oid), array(
            select r from unnest(array['anon', 'authenticated', 'service_role', 'worker', 'executor', 'engine']) as r
            where has_function_privilege(r, p.oid, 'execute') order by r)
          from pg_proc as p where p.pronamespace = 'public'::regnamespace"""
    )
    return {name: {"needs": needs or [], "comment": comment, "roles": roles} for name, needs, comment, roles in found}


def arguments_of(site: Site, function: str, needs: list[str]) -> dict[str, Any]:
    """Return a function's arguments: the organisation's things by the names of the arguments, and the others that it needs."""
    given = ARGUMENTS.get(function, {})
    return {name: site.things[name] for name in needs if name in site.things} | {
        key: site.things.get(value, value) if isinstance(value, str) else value for key, value in given.items()
    }


def attempt(caller: Caller, site: Site, function: str, needs: list[str]) -> str:
    """The SQLSTATE of a call, or "ok"; whatever it did is undone."""
    try:
        with caller.connection.transaction(force_rollback=True):
            said = caller.call(function, **arguments_of(site, function, needs))
    except psycopg.Error as error:
        return error.sqlstate or "?"
    # A guess that counts is refused without an exception.
    return str(said["code"]) if isinstance(said, dict) and str(said.get("code", "")).startswith("RY") else "ok"


def outcomes(site: Site, function: str, needs: list[str]) -> dict[str, str]:
    return {name: attempt(caller, site, function, needs) for name, caller in site.callers.items()}


def test_each_function_is_for_exactly_one_kind_of_caller(site: Site) -> None:
    kinds = {tuple(about["roles"]) for about in functions(site.world).values()}
    assert kinds == {("authenticated",), ("service_role",), ("worker",), ("executor", "worker"), ENGINES}


def test_functions_for_people_check_the_role_of_the_caller(site: Site) -> None:
    """Roles below the one that the comment names are refused, the others not, be they held by a person or by a service
    account; strangers and processes are always refused."""
    wrong: list[tuple[str, ...]] = []
    for function, about in functions(site.world).items():
        if about["roles"] != ["authenticated"] or function in FOR_EVERYBODY:
            continue
        least = next(role for words, role in LEAST_ROLE.items() if about["comment"].split(". ")[-1].startswith(words))
        got = outcomes(site, function, about["needs"])
        for rank, role in enumerate(RANKS):
            is_refused = got[role] == "RY403"
            if is_refused is not (rank < RANKS.index(least)):
                wrong.append((function, role, got[role], f"least role: {least}"))
            if role != "owner" and (got[f"account {role}"] == "RY403") is not is_refused:
                wrong.append((function, f"account {role}", got[f"account {role}"], f"least role: {least}"))
        if got["stranger"] != "RY404":
            wrong.append((function, "stranger", got["stranger"]))
        wrong += [(function, who, got[who]) for who in PROCESSES if got[who] != "42501"]
    assert wrong == []


def test_functions_for_everybody_need_a_signed_in_person_and_no_role(site: Site) -> None:
    for function in FOR_EVERYBODY:
        got = outcomes(site, function, functions(site.world)[function]["needs"])
        assert got["viewer"] == got["stranger"] == ("RY404" if function in WITH_A_SECRET else "ok")
        assert got["account admin"] == ("ok" if function in {"my_organizations", "organization_makers"} else "RY403")
        assert got["anon"] == got["holder"] == got["service"] == "42501"


def test_functions_for_runners_are_refused_to_people_and_to_runners_without_the_attempt(site: Site) -> None:
    """The holder of the attempt is admitted; another runner, a foreign one and a revoked one are not; people never."""
    wrong: list[tuple[str, ...]] = []
    for function, about in functions(site.world).items():
        if "worker" not in about["roles"]:
            continue
        got = outcomes(site, function, about["needs"])
        people = [who for who in got if who.startswith("account ")] + [*RANKS, "stranger", "anon", "service"]
        wrong += [(function, who, got[who]) for who in people if got[who] != "42501"]
        if got["revoked worker"] != "RY401":
            wrong.append((function, "revoked worker", got["revoked worker"]))
        if got["holder"] in {"42501", "RY401", "RY410"}:
            wrong.append((function, "holder", got["holder"]))
        for role in ("executor", "engine"):
            if (got[role] == "42501") is (role in about["roles"]):
                wrong.append((function, role, got[role]))
        if "p_attempt" in about["needs"]:
            expected = {"RY404"} if function in {"worker_finish", "worker_state_keep"} else {"RY410"}
            wrong += [
                (function, who, got[who]) for who in ("other worker", "foreign worker") if got[who] not in expected
            ]
        elif function in FOR_ANY_WORKER:
            wrong += [(function, who, got[who]) for who in ("other worker", "foreign worker") if got[who] != "ok"]
    assert wrong == []


def test_an_engine_may_only_read_states_and_outputs(site: Site) -> None:
    assert {name for name, about in functions(site.world).items() if "engine" in about["roles"]} == {
        "worker_state_get",
        "worker_outputs_get",
    }


@pytest.mark.parametrize("role", ["executor", "engine"])
def test_an_executor_or_an_engine_is_limited_to_its_own_job(site: Site, role: str) -> None:
    worker, session = site.things["p_worker"], site.things["p_session"]
    foreign = site.world.caller(role, sub=worker, sid=session, job="999", att="1")
    for function, about in functions(site.world).items():
        if role in about["roles"]:
            assert attempt(foreign, site, function, about["needs"]) == "RY403", function


def test_functions_for_the_service_refuse_everybody_else(site: Site) -> None:
    wrong: list[tuple[str, ...]] = []
    for function, about in functions(site.world).items():
        if about["roles"] == ["service_role"]:
            got = outcomes(site, function, about["needs"])
            wrong += [(function, who, got[who]) for who in got if who != "service" and got[who] != "42501"]
            if got["service"] == "42501":
                wrong.append((function, "service", got["service"]))
    assert wrong == []


# ---------------------------------------------------------------------- tables

# How many callers of each kind see rows of the organisation; everything else is refused or empty.
ADMINS_ONLY = {"audit_events", "deliveries"}
OF_EVERYBODY = {"worker_releases"}


def sees(caller: Caller, table: str, org_id: str | None) -> str:
    where = "" if org_id is None else f" where {'id' if table == 'organizations' else 'org_id'} = '{org_id}'"
    try:
        return "rows" if caller.one(f"select count(*) from public.{table}{where}") else "nothing"
    except psycopg.Error as error:
        return error.sqlstate or "?"


def test_every_table(site: Site) -> None:
    tables = site.world.owner.rows(
        "select relname from pg_class where relnamespace = 'public'::regnamespace and relkind in ('r', 'p', 'v') order by 1"
    )
    wrong: list[tuple[str, ...]] = []
    for table in tables:
        org_id = None if table in OF_EVERYBODY else site.org.id
        got = {name: sees(caller, table, org_id) for name, caller in site.callers.items()}
        expected = dict.fromkeys(got, "42501") | dict.fromkeys(["admin", "account admin", "owner", "service"], "rows")
        below = ["viewer", "operator", "account viewer", "account operator"]
        expected |= dict.fromkeys(below, "nothing" if table in ADMINS_ONLY else "rows")
        expected["stranger"] = "rows" if table in OF_EVERYBODY else "nothing"
        if table in OF_EVERYBODY:
            expected |= dict.fromkeys([name for name in got if name.endswith("worker") or name == "holder"], "rows")
        wrong += [(table, name, got[name], f"expected {expected[name]}") for name in got if got[name] != expected[name]]
    assert wrong == []


def test_no_table_can_be_written_by_anybody(site: Site) -> None:
    tables = site.world.owner.rows(
        "select relname from pg_class where relnamespace = 'public'::regnamespace and relkind in ('r', 'p')"
    )
    for name, caller in site.callers.items():
        for table in tables:
            for statement in (
                f"delete from public.{table}",
                f"insert into public.{table} default values",
                f"truncate public.{table}",
            ):
                with pytest.raises(psycopg.Error) as caught, caller.connection.transaction(force_rollback=True):
                    caller.connection.execute(statement)
                assert caught.value.sqlstate == "42501", (name, statement)


def test_every_verb_is_checked_somewhere_and_every_check_names_a_known_verb(world: World) -> None:
    """An unknown verb would fail at run time; one that nothing checks protects nothing."""
    bodies = world.owner.rows("select prosrc from pg_proc where pronamespace = 'private'::regnamespace")
    policies = world.owner.rows("select qual from pg_policies where schemaname = 'public'")
    known = set(world.owner.rows("select verb from private.verbs"))
    defaults = world.owner.one("select pg_get_function_arguments('private.my_org_ids'::regproc)")
    named = set(re.findall(r"'([a-z]+\.[a-z_]+)'", "\n".join([*bodies, *policies, defaults])))
    assert known - named == set()
    asked = set(re.findall(r"private\.need\('([^']+)'", "\n".join(bodies)))
    assert asked - known == set()
