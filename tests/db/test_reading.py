"""Reading at a path: a guest sees what their roles give, and learns nothing of anything else in the organisation."""

import contextlib
import json
import re
import uuid
from typing import Any

import psycopg
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.db.test_permissions import ARGUMENTS, FOR_EVERYBODY, Site, build, functions
from tests.db.test_rights import grant, team
from tests.db.world import Caller, Organization, User, World, refused
from tests.support.database import Database

UNSEEN = "a module you may not see"
PATHS = ["a", "a/b", "a/b/c", "a/bc", "d"]
MODULES = ["a/x", "a/b/x", "a/b/c/x", "a/bc/x", "d/x"]


@pytest.fixture(scope="module")
def site(postgres_server: Any, module_database: str) -> Any:
    database = Database(postgres_server, module_database)
    made = build(World.open(database))
    made.org.module("z/x")
    # A runner that serves all modules is everybody's.
    made.world.owner.connection.execute("update public.workers set is_assigned_to_all_modules = false")
    yield made
    database.close()


@pytest.fixture
def tree(org: Organization) -> Organization:
    for path in MODULES:
        org.module(path)
    return org


def guest(org: Organization, *paths: str, role: str = "viewer") -> User:
    made = org.member("guest")
    for path in paths:
        grant(org, role, path, made)
    return made


def answer_of(caller: Caller, function: str, arguments: dict[str, Any], hidden: list[Any]) -> str:
    """An answer or a refusal as a caller reads it, without the things they named, ids and times; nothing is kept."""
    try:
        with caller.connection.transaction(force_rollback=True):
            said: Any = caller.call(function, **arguments)
    except psycopg.Error as error:
        diag = error.diag
        said = [error.sqlstate, diag.message_primary, diag.message_detail, diag.message_hint]
    text = json.dumps(said, sort_keys=True, default=str)
    text = re.sub(
        r"\d{4}-\d\d-\d\d[T ][\d:.+]+(?:\+\d\d)?",
        "TIME",
        re.sub(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", "ID", text),
    )
    # Who could do it instead: the guest may ask them.
    text = re.sub(r'"[^"]* (has|have) it\."', "HOLDERS", text)
    text = re.sub(r'"name": "Org-[^"]*"', "NAME", text)
    text = re.sub(r"[0-9a-f]{8}@example\.org", "EMAIL", text)
    for value in sorted({str(value) for value in hidden}, key=len, reverse=True):
        text = re.sub(rf"\b{re.escape(value)}\b", "THING", text)
    return text


def missing(things: dict[str, Any], org_id: str) -> dict[str, Any]:
    """The same arguments, naming things that nobody has."""

    def other(value: Any) -> Any:
        if isinstance(value, int):
            return value if value == 1 else 987654321
        return "{" + str(uuid.uuid4()) + "}" if str(value).startswith("{") else str(uuid.uuid4())

    return {name: other(value) for name, value in things.items()} | {"p_org": org_id}


def arguments(things: dict[str, Any], function: str, needs: list[str]) -> dict[str, Any]:
    fixed = ARGUMENTS.get(function, {})
    return {name: things[name] for name in needs if name in things} | {
        key: things.get(value, value) if isinstance(value, str) else value for key, value in fixed.items()
    }


# What is the caller's own, is the same for all members of an organisation, or is proved by a secret.
ABOUT_THE_CALLER = FOR_EVERYBODY | {"remove_member", "request_git_link", "list_roles", "pending_git_app"}


@pytest.mark.parametrize("paths", [(), ("z",)])
def test_a_full_organisation_answers_a_guest_like_an_empty_one(site: Site, paths: tuple[str, ...]) -> None:
    """Every call that a person may make, with everything that can be named; a new call is in the catalogue and is tried.

    The guest has no role, or is an admin of a group in which there is only one module, as in the other organisation.
    """
    empty = site.world.organization()
    empty.module("z/x")
    stranger, nobody = guest(site.org, *paths, role="admin"), guest(empty, *paths, role="admin")
    slug = empty.owner.one("select slug from public.organizations where id = %s", empty.id)
    absent = missing(site.things, empty.id) | {"p_slug": slug}
    leaks = []
    for function, about in functions(site.world).items():
        if about["roles"] != ["authenticated"] or function in ABOUT_THE_CALLER:
            continue
        told = answer_of(
            stranger, function, arguments(site.things, function, about["needs"]), list(site.things.values())
        )
        control = answer_of(nobody, function, arguments(absent, function, about["needs"]), list(absent.values()))
        if told != control:
            leaks.append((function, told[:300], control[:300]))
    assert not leaks, "\n".join(map(str, leaks))


# Rows of the member's own, and what every member of an organisation has in common.
OWN_ROWS = {"organizations": 1, "memberships": 1, "roles": 1, "sealing_keys": 1}


def test_a_guest_reads_no_row_of_any_table(site: Site) -> None:
    stranger = guest(site.org)
    tables = site.world.owner.rows(
        "select relname from pg_class where relnamespace = 'public'::regnamespace and relkind in ('r', 'p', 'v')"
    )
    counts = {
        table: stranger.one(
            f"select count(*) from public.{table} where {'id' if table == 'organizations' else 'org_id'} = %s",
            site.org.id,
        )
        for table in tables
        if table != "worker_releases"
    }
    assert {table: n for table, n in counts.items() if n} == OWN_ROWS


def test_a_member_with_a_role_that_reads_sees_all_of_it_as_before(site: Site) -> None:
    """A role at a path takes nothing away from a member who reads the whole organisation."""
    viewer = site.org.member("viewer")
    grant(site.org, "operator", "a/b", viewer)
    for table in ("modules", "provision_jobs", "variables", "workers", "git_deliveries", "pull_requests"):
        assert viewer.one(f"select count(*) from public.{table} where org_id = %s", site.org.id)
    assert viewer.call("list_modules", p_org=site.org.id)["total"] == 4


def test_a_guest_sees_what_is_at_and_below_the_path_of_a_role(tree: Organization) -> None:
    for path in tree.modules:
        tree.enqueue(path)
    tree.worker("everywhere", is_assigned_to_all_modules=True)
    above = tree.worker("above", assignments=["a"])
    tree.worker("beside", assignments=["d"])
    reader = guest(tree, "a/b")
    seen = ["a/b/c/x", "a/b/x"]
    listed = reader.call("list_modules", p_org=tree.id)
    assert ([row["path"] for row in listed["rows"]], listed["total"]) == (seen, 2)
    assert sorted(reader.rows("select path from public.modules")) == seen
    jobs = reader.call("list_jobs", p_org=tree.id)
    assert (sorted(row["module_path"] for row in jobs["rows"]), jobs["total"], jobs["counts"]) == (
        seen,
        2,
        {"QUEUED": 2},
    )
    assert sorted(reader.rows("select module_path from public.provision_jobs")) == seen
    overview = reader.call("fleet_overview", p_org=tree.id)
    assert (overview["counts"]["jobs"], overview["counts"]["workers"]["total"]) == ({"QUEUED": 2}, 2)
    names = [row["name"] for row in reader.call("list_runners", p_org=tree.id)["rows"]]
    assert (
        names
        == sorted(reader.rows("select name from public.workers where org_id is not null"))
        == ["above", "everywhere"]
    )
    assert reader.call("runner_page", p_org=tree.id, p_worker=above)["assignments"] == []
    assert {row["module_path"] for row in reader.call("list_events", p_org=tree.id)["rows"]} == set(seen)
    assert reader.call("list_jobs", p_org=tree.id, p_search="d/")["total"] == 0
    found = reader.call(
        "explain_queue", p_job=reader.call("job_page", p_org=tree.id, p_number=jobs["rows"][0]["number"])["job"]["id"]
    )
    assert {row["name"] for row in found["runners"]} == {"above", "everywhere"}


def test_a_guest_without_a_role_sees_the_organisation_and_nothing_in_it(tree: Organization) -> None:
    tree.enqueue("a/x")
    nobody = guest(tree)
    assert [row["role"] for row in nobody.call("my_organizations")] == ["guest"]
    assert nobody.call("list_modules", p_org=tree.id)["total"] == 0
    assert nobody.call("list_jobs", p_org=tree.id)["counts"] == {}
    with refused("RY404", "There is no such module or group."):
        nobody.call("list_access", p_org=tree.id, p_path="a")


def test_a_guest_acts_where_a_role_lets_them(tree: Organization) -> None:
    operator = guest(tree, "a/b", role="operator")
    assert (
        operator.call("enqueue_job", p_org=tree.id, p_type="APPLY", p_module=tree.modules["a/b/x"])["status"]
        == "QUEUED"
    )
    operator.call("create_schedule", p_org=tree.id, p_spec={"path": "a/b", "type": "DRIFT", "cron": "0 2 * * *"})
    assert [row["path"] for row in operator.call("list_schedules", p_org=tree.id)] == ["a/b"]
    with refused("RY404", "There is no such module."):
        operator.call("enqueue_job", p_org=tree.id, p_type="APPLY", p_module=tree.modules["d/x"])
    with refused("RY403", "You need job.approve at a/b/x"):
        planner = guest(tree, "a/b", role="planner")
        planner.call("approve_job", p_job=tree.enqueue("a/b/x", "APPLY"), p_decision="approve")


def test_a_team_and_a_role_at_the_top_let_a_guest_see(tree: Organization) -> None:
    one, whole = guest(tree), guest(tree, "")
    sre = team(tree, "sre", one)
    tree.owner.call("grant_role", p_org=tree.id, p_path="d", p_role="viewer", p_kind="team", p_subject=sre)
    assert one.rows("select path from public.modules") == ["d/x"]
    assert whole.call("list_modules", p_org=tree.id)["total"] == len(MODULES)
    assert len(whole.rows("select path from public.modules")) == len(MODULES)
    tree.owner.call("set_team_member", p_team=sre, p_user=one.id, p_is_member=False)
    assert one.rows("select path from public.modules") == []


def test_an_own_role_reads_where_it_is_given_and_nobody_is_given_guest_there(tree: Organization) -> None:
    tree.owner.call("set_role", p_org=tree.id, p_name="planning", p_verbs="{job.plan}")
    reader = guest(tree, "d", role="planning")
    assert reader.call("module_page", p_org=tree.id, p_module=tree.modules["d/x"])["module"]["path"] == "d/x"
    with refused("RY404", 'There is no role "guest".'):
        grant(tree, "guest", "d", reader)


def test_a_dependency_on_an_unseen_module_has_no_name(tree: Organization) -> None:
    ends = {"p_consumer": tree.modules["a/b/x"], "p_producer": tree.modules["d/x"]}
    tree.owner.call("set_dependency", **ends, p_options={"bindings": {"x": "y"}})
    consumer, producer = guest(tree, "a/b"), guest(tree, "d", role="admin")
    (edge,) = consumer.call("list_dependencies", p_org=tree.id)["dependencies"]
    assert (edge["consumer"], edge["producer"], edge["bindings"]) == ("a/b/x", UNSEEN, {"x": "y"})
    tree.owner.call("enqueue_job", p_org=tree.id, p_type="APPLY", p_module=tree.modules["a/b/x"])
    found = producer.call("list_dependencies", p_org=tree.id)
    (edge,) = found["dependencies"]
    assert (edge["consumer"], edge["producer"], edge["bindings"]) == (UNSEEN, "d/x", {})
    assert {row["path"]: row["last_job"] for row in found["modules"]} == {"d/x": None, UNSEEN: None}
    seen = {row["path"]: row["last_job"] for row in consumer.call("list_dependencies", p_org=tree.id)["modules"]}
    assert (seen[UNSEEN], seen["a/b/x"]["status"]) == (None, "QUEUED")
    assert producer.rows("select 1 from public.module_dependencies") == []
    assert "a/b" not in json.dumps(producer.call("module_page", p_org=tree.id, p_module=tree.modules["d/x"]))
    with refused("RY409", f'Other modules depend on "d/x": {UNSEEN}.'):
        producer.call("delete_module", p_module=tree.modules["d/x"], p_confirm_name="x")


def test_variables_and_identities_above_are_used_and_not_read(tree: Organization) -> None:
    spec = {"kind": "custom", "audience": "x"}
    for path, name in (("", "top"), ("a", "outer"), ("a/b", "inner")):
        variable = [{"kind": "input", "name": name, "value": 1}]
        tree.owner.call("set_variables", p_org=tree.id, p_path=path, p_variables=variable)
        tree.owner.call("attach_identity", p_org=tree.id, p_path=path, p_spec={**spec, "name": name})
    reader, job = guest(tree, "a/b"), tree.enqueue("a/b/x")
    reads = [
        reader.call("preview_variables", p_org=tree.id, p_path="a/b/x"),
        reader.call("list_variables", p_org=tree.id),
        reader.call("list_job_variables", p_job=job),
        reader.call("preview_identities", p_module=tree.modules["a/b/x"])["identities"],
    ]
    assert [[row["name"] for row in rows] for rows in reads] == [["inner"]] * 4
    assert sorted(tree.world.given(job)) == ["inner", "outer", "top"]


def test_a_cascade_into_other_groups_is_no_set_of_the_producers_guest(tree: Organization) -> None:
    made = tree.owner.call("start_set", p_org=tree.id, p_type="DRIFT", p_path="a/b")["id"]
    reader = guest(tree, "a/b")
    assert [row["id"] for row in reader.call("list_sets", p_org=tree.id)] == [made]
    tree.world.owner.connection.execute(
        "insert into private.set_members (set_id, module_id, org_id) values (%s, %s, %s)",
        [made, tree.modules["d/x"], tree.id],
    )
    assert reader.call("list_sets", p_org=tree.id) == reader.rows("select id from public.job_sets") == []
    with refused("RY404", "There is no such set."):
        reader.call("set_progress", p_set=made)


@settings(max_examples=12)
@given(bound=st.sets(st.sampled_from(["", *PATHS]), max_size=3), is_team=st.booleans())
def test_what_a_guest_sees_is_what_the_model_sees(module_tree: Organization, bound: set[str], is_team: bool) -> None:
    reader = module_tree.member("guest")
    subject = team(module_tree, f"t{uuid.uuid4().hex[:8]}", reader) if is_team else reader.id
    for path in bound:
        kind = "team" if is_team else "member"
        module_tree.owner.call(
            "grant_role", p_org=module_tree.id, p_path=path, p_role="viewer", p_kind=kind, p_subject=subject
        )
    seen = sorted(path for path in MODULES if any(top in ("", path) or path.startswith(top + "/") for top in bound))
    jobs = reader.call("list_jobs", p_org=module_tree.id, p_limit=200)
    assert sorted(row["path"] for row in reader.call("list_modules", p_org=module_tree.id)["rows"]) == seen
    assert sorted(row["module_path"] for row in jobs["rows"]) == seen
    assert (
        jobs["total"]
        == reader.call("fleet_overview", p_org=module_tree.id)["counts"]["jobs"].get("QUEUED", 0)
        == len(seen)
    )
    assert sorted(reader.rows("select path from public.modules")) == seen
    assert sorted(row["path"] for row in reader.call("list_dependencies", p_org=module_tree.id)["modules"]) == seen
    assert sorted(row["path"] for row in reader.call("list_schedules", p_org=module_tree.id)) == seen
    for path in MODULES:
        ask = {"p_org": module_tree.id, "p_module": module_tree.modules[path]}
        with contextlib.nullcontext() if path in seen else refused("RY404", "There is no such module."):
            reader.call("module_page", **ask)


@pytest.fixture(scope="module")
def module_tree(site: Site) -> Organization:
    made = site.world.organization()
    for path in MODULES:
        made.module(path)
        made.enqueue(path)
        made.owner.call("create_schedule", p_org=made.id, p_spec={"path": path, "type": "DRIFT", "cron": "0 2 * * *"})
    return made


def test_values_cross_groups_only_by_somebody_whom_the_producers_group_lets(tree: Organization) -> None:
    """A reader of the producer may order two modules, and binds no value of it."""
    member = guest(tree, "a/b", role="admin")
    ends = {"p_consumer": tree.modules["a/b/x"], "p_producer": tree.modules["d/x"]}
    with refused("RY404", "There is no such module."):
        member.call("set_dependency", **ends)
    grant(tree, "viewer", "d", member)
    bound = {"p_options": {"bindings": {"x": "y"}}}
    with refused("RY403", "You need state.write at d/x"):
        member.call("set_dependency", **ends, **bound)
    with refused("RY403", "You need state.write at d/x"):
        member.call("grant_outputs", p_module=tree.modules["d/x"], p_reader=tree.modules["a/b/x"])
    grant(tree, "admin", "d", member)
    assert member.call("set_dependency", **ends, **bound)["bindings"] == {"x": "y"}


def test_a_run_that_one_may_not_see_looks_like_a_missing_one(tree: Organization) -> None:
    plan = tree.enqueue("d/x")
    member = guest(tree, "a")
    for run in (plan, plan + 1000):
        with refused("RY404", "There is no such run."):
            member.call("terminal_run", p_run=run)
    grant(tree, "viewer", "d", member)
    assert member.call("terminal_run", p_run=plan)
