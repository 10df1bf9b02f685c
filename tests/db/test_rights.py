"""Rights at a path: bindings of members, teams and service accounts add to the role of the membership, and nothing else does."""

import uuid
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.db.test_personal_tokens import acting, make
from tests.db.world import Caller, Organization, User, World, refused
from tests.support.database import Database

PATHS = ["", "a", "a/b", "a/b/c", "a/bc", "d"]
MODULES = ["a/b/c", "a/bc", "d/e"]
ROLES = ["viewer", "planner", "approver", "operator", "admin"]


@pytest.fixture
def tree(org: Organization) -> Organization:
    for path in MODULES:
        org.module(path)
    return org


def grant(org: Organization, role: str, path: str, subject: User, *, by: Caller | None = None) -> dict[str, Any]:
    whole = {"p_path": path, "p_role": role, "p_kind": "member", "p_subject": subject.id}
    made: dict[str, Any] = (by or org.owner).call("grant_role", p_org=org.id, **whole)
    return made


def run(caller: Caller, org: Organization, path: str, kind: str = "PLAN", **options: Any) -> Any:
    return caller.call("enqueue_job", p_org=org.id, p_type=kind, p_module=org.modules[path], p_options=options)


def team(org: Organization, name: str, *members: User) -> str:
    made = str(org.owner.call("create_team", p_org=org.id, p_name=name)["id"])
    for member in members:
        org.owner.call("set_team_member", p_team=made, p_user=member.id, p_is_member=True)
    return made


def test_a_role_counts_at_its_path_and_below_but_not_beside(tree: Organization) -> None:
    viewer = tree.member("viewer")
    grant(tree, "operator", "a/b", viewer)
    assert run(viewer, tree, "a/b/c", "APPLY")["created_by"] == viewer.id
    for beside in ("a/bc", "d/e"):
        with refused("RY403", f"You need job.plan at {beside}; your role is viewer."):
            run(viewer, tree, beside)
    with refused("RY403", "You need job.plan at a;"):
        viewer.call("start_set", p_org=tree.id, p_type="PLAN", p_path="a")
    viewer.call("start_set", p_org=tree.id, p_type="PLAN", p_path="a/b")


def test_one_forbidden_module_refuses_the_whole_request(tree: Organization) -> None:
    viewer = tree.member("viewer")
    grant(tree, "operator", "a/b", viewer)
    both = [tree.modules["a/b/c"], tree.modules["d/e"]]
    with refused("RY403", "at d/e"):
        viewer.call("enqueue_jobs", p_org=tree.id, p_type="PLAN", p_modules="{" + ",".join(both) + "}")
    assert tree.owner.rows("select 1 from public.provision_jobs where org_id = %s", tree.id) == []


def test_a_binding_at_the_top_reaches_acts_on_the_organisation_and_one_below_does_not(tree: Organization) -> None:
    below, top = tree.member("viewer"), tree.member("viewer")
    grant(tree, "admin", "a", below)
    grant(tree, "admin", "", top)
    invitation = {"p_org": tree.id, "p_email": "x@example.org", "p_role": "viewer", "p_token_hash": "0" * 64}
    with refused("RY403", "You need member.manage in the whole organisation"):
        below.call("invite_member", **invitation)
    assert top.call("invite_member", **invitation)["role"] == "viewer"


def test_a_planner_plans_and_applies_nothing(tree: Organization) -> None:
    planner = tree.member("viewer")
    grant(tree, "planner", "a", planner)
    run(planner, tree, "a/b/c")
    run(planner, tree, "a/b/c", "DRIFT")
    for kind, options in (("APPLY", {}), ("DESTROY", {}), ("PLAN", {"auto_apply": True}), ("PLAN", {"confirm": True})):
        with refused("RY403", "You need job.apply at a/b/c"):
            run(planner, tree, "a/b/c", kind, **options)


def test_an_approver_approves_and_runs_nothing_not_even_by_a_confirmation(org: Organization) -> None:
    approver = org.member("viewer")
    org.module("a/strict", approvals_required=1)
    org.module("b/strict", approvals_required=1)
    grant(org, "approver", "a", approver)
    with refused("RY403", "You need job.plan"):
        run(approver, org, "a/strict")
    operator = org.member("operator")
    job = run(operator, org, "a/strict", "APPLY")["id"]
    elsewhere = run(operator, org, "b/strict", "APPLY")["id"]
    assert approver.call("approve_job", p_job=job, p_decision="approve")["status"] == "QUEUED"
    with refused("RY403", "You need job.approve at b/strict"):
        approver.call("approve_job", p_job=elsewhere, p_decision="approve")


def test_a_confirmation_needs_the_verb_that_applies(world: World, tree: Organization) -> None:
    approver = tree.member("viewer")
    grant(tree, "approver", "a", approver)
    runner = tree.runner("one", is_assigned_to_all_modules=True)
    run(tree.owner, tree, "a/b/c", confirm=True)
    job = runner.claim_one()
    runner.finish(job, p_result={"plan_sha256": "0" * 64}, p_plan_summary={"has_changes": True, "add": 1})
    waiting = world.owner.rows(
        "select id from public.provision_jobs where org_id = %s and status = 'AWAITING_APPROVAL'", tree.id
    )
    for each in waiting:
        with refused("RY403", "You need job.apply at a/b/c"):
            approver.call("approve_job", p_job=each, p_decision="approve")
    assert waiting


def test_a_team_gives_its_members_what_it_has_until_they_leave(tree: Organization) -> None:
    viewer = tree.member("viewer")
    sre = team(tree, "sre", viewer)
    bound = {"p_path": "a", "p_role": "operator", "p_kind": "team", "p_subject": sre}
    tree.owner.call("grant_role", p_org=tree.id, **bound)
    run(viewer, tree, "a/b/c")
    tree.owner.call("set_team_member", p_team=sre, p_user=viewer.id, p_is_member=False)
    with refused("RY403") as caught:
        run(viewer, tree, "a/b/c")
    assert caught.value.diag.message_hint == f"the team sre, {tree.owner.email} have it."


def test_removing_a_member_ends_their_bindings_and_teams(world: World, tree: Organization) -> None:
    leaver = tree.member("viewer")
    team(tree, "sre", leaver)
    grant(tree, "admin", "", leaver)
    tree.owner.call("remove_member", p_org=tree.id, p_user=leaver.id)
    for table in ("role_bindings", "team_members"):
        assert world.owner.rows(f"select 1 from public.{table} where user_id = %s", leaver.id) == []


def test_an_account_without_a_role_does_what_its_bindings_give(tree: Organization) -> None:
    account = tree.account(None)
    with refused("RY403", "This service account has no role in the organisation."):
        tree.acting(account)
    bound = {"p_path": "a", "p_role": "planner", "p_kind": "account", "p_subject": account["id"]}
    tree.owner.call("grant_role", p_org=tree.id, **bound)
    ci = tree.acting(account)
    assert run(ci, tree, "a/b/c")["created_by"] == account["id"]
    with refused("RY403", "You need job.apply at a/b/c"):
        run(ci, tree, "a/b/c", "APPLY")
    with refused("RY404", "There is no such module."):
        run(ci, tree, "d/e")


def test_nobody_grants_a_verb_that_they_do_not_have_at_that_path(tree: Organization) -> None:
    granter, friend = tree.member("viewer"), tree.member("viewer")
    tree.owner.call("set_role", p_org=tree.id, p_name="granter", p_verbs="{role.grant,job.plan,member.manage}")
    grant(tree, "granter", "a", granter)
    with refused("RY403", "You need"):
        grant(tree, "operator", "a", friend, by=granter)
    with refused("RY403", "You need role.grant at d"):
        grant(tree, "planner", "d", friend, by=granter)
    grant(tree, "planner", "a/b", friend, by=granter)
    run(friend, tree, "a/b/c")


def test_nobody_joins_a_team_to_verbs_that_the_admitting_person_lacks(tree: Organization) -> None:
    manager, friend = tree.member("viewer"), tree.member("viewer")
    sre = team(tree, "sre")
    bound = {"p_path": "a", "p_role": "admin", "p_kind": "team", "p_subject": sre}
    tree.owner.call("grant_role", p_org=tree.id, **bound)
    tree.owner.call("set_role", p_org=tree.id, p_name="people", p_verbs="{member.manage,role.grant}")
    grant(tree, "people", "", manager)
    with refused("RY403", "at a;"):
        manager.call("set_team_member", p_team=sre, p_user=friend.id, p_is_member=True)
    with refused("RY403", "at a;"):
        manager.call("set_team_member", p_team=sre, p_user=manager.id, p_is_member=True)


def test_an_own_role_takes_no_verb_of_owners_and_none_that_its_maker_lacks(tree: Organization) -> None:
    admin = tree.member("admin")
    for verbs in ("{member.own}", "{job.fly}", "{}"):
        with refused("RY422", "A role cannot have"):
            tree.owner.call("set_role", p_org=tree.id, p_name="odd", p_verbs=verbs)
    with refused("RY409", '"planner" is a built-in role.'):
        admin.call("set_role", p_org=tree.id, p_name="planner", p_verbs="{job.apply}")
    operator = tree.member("operator")
    tree.owner.call("set_role", p_org=tree.id, p_name="granter", p_verbs="{role.grant}")
    grant(tree, "granter", "", operator)
    with refused("RY403", "You need module.delete in the whole organisation"):
        operator.call("set_role", p_org=tree.id, p_name="more", p_verbs="{module.delete}")


def test_owners_are_made_as_members_and_not_by_a_binding(tree: Organization) -> None:
    viewer = tree.member("viewer")
    with refused("RY422", "An owner is made under Settings"):
        grant(tree, "owner", "", viewer)


def test_a_path_that_is_removed_takes_its_bindings_along(tree: Organization) -> None:
    """Somebody who later creates a group of the same name decides again who has access."""
    viewer = tree.member("viewer")
    grant(tree, "operator", "d", viewer)
    grant(tree, "operator", "d/e", viewer)
    tree.owner.call("delete_module", p_module=tree.modules["d/e"], p_confirm_name="e")
    group = tree.owner.one("select id::text from public.groups where org_id = %s and path = 'd'", tree.id)
    tree.owner.call("delete_group", p_group=group)
    assert tree.owner.rows("select 1 from public.role_bindings where org_id = %s", tree.id) == []


def test_a_stranger_learns_nothing_about_access(tree: Organization, other_org: Organization) -> None:
    viewer = tree.member("viewer")
    binding = grant(tree, "operator", "a", viewer)
    for function, more in (("list_access", {"p_path": "a"}), ("list_roles", {}), ("my_verbs", {"p_path": "a"})):
        with refused("RY404"):
            other_org.owner.call(function, p_org=tree.id, **more)
    with refused("RY404"):
        other_org.owner.call("revoke_role", p_binding=binding["id"])
    with refused("RY404", "There is no such member, team or service account."):
        grant(other_org, "viewer", "", viewer)
    for table in ("roles", "teams", "team_members", "role_bindings"):
        assert other_org.owner.rows(f"select 1 from public.{table}") == []


def test_why_somebody_may_is_one_line(tree: Organization) -> None:
    viewer = tree.member("viewer")
    team_id = team(tree, "sre", viewer)
    bound = {"p_path": "a", "p_role": "operator", "p_kind": "team", "p_subject": team_id}
    tree.owner.call("grant_role", p_org=tree.id, **bound)
    asked = {"p_org": tree.id, "p_user": viewer.id, "p_verb": "job.apply"}
    words = viewer.call("explain_access", p_path="a/b/c", **asked)["words"]
    assert words == f"{viewer.email} may job.apply at a/b/c: operator at a through the team sre."
    answer = viewer.call("explain_access", p_path="d/e", **asked)
    assert answer["may"] is False
    assert answer["words"] == f"{viewer.email} may not job.apply at d/e. {tree.owner.email} has it."


@pytest.mark.parametrize(
    ("role", "path", "done"),
    [
        (None, "", {"PLAN a", "PLAN d", "APPLY a", "APPLY d"}),
        ("viewer", "", set()),
        ("planner", "", {"PLAN a", "PLAN d"}),
        ("operator", "a", {"PLAN a", "APPLY a"}),
    ],
)
def test_a_limited_token_does_at_most_what_its_role_may_at_its_path(
    world: World, tree: Organization, role: str | None, path: str, done: set[str]
) -> None:
    operator = tree.member("operator")
    secret = f"token of {operator.id}"
    make(operator, secret, p_role=role, p_path=path)
    program = acting(world, secret)
    assert program.rows("select path from public.modules order by 1") == sorted(MODULES), "every token reads"
    for kind in ("PLAN", "APPLY"):
        for name, module in (("a", "a/b/c"), ("d", "d/e")):
            if f"{kind} {name}" in done:
                run(program, tree, module, kind)
                continue
            with refused("RY403", "This personal token may not"):
                run(program, tree, module, kind)


def test_a_token_with_a_wide_role_does_no_more_than_its_owner(world: World, tree: Organization) -> None:
    viewer = tree.member("viewer")
    make(viewer, f"wide {viewer.id}", p_role="admin")
    with refused("RY403", "You need job.plan"):
        run(acting(world, f"wide {viewer.id}"), tree, "a/b/c")


@pytest.fixture(scope="module")
def tree_of_all(postgres_server: Any, module_database: str) -> Any:
    """One organisation for all examples: each undoes what it did."""
    database = Database(postgres_server, module_database)
    world = World.open(database)
    yield world, world.organization()
    database.close()


BINDINGS = st.lists(st.tuples(st.sampled_from(ROLES), st.sampled_from(PATHS), st.booleans()), max_size=6)


@given(base=st.sampled_from(["viewer", "operator", "admin"]), bindings=BINDINGS)
def test_what_somebody_may_is_the_union_along_the_path(
    tree_of_all: tuple[World, Organization], base: str, bindings: list[tuple[str, str, bool]]
) -> None:
    """A model in five lines agrees with the database about every verb at every path."""
    world, org = tree_of_all
    verbs: dict[str, set[str]] = {}
    for role, verb in world.owner.rows("select role, verb from private.role_verbs"):
        verbs.setdefault(role, set()).add(verb)
    with world.owner.connection.transaction(force_rollback=True):
        person = world.owner.one(
            "insert into auth.users (id, email) values (gen_random_uuid(), 'p@x.org') returning id"
        )
        add = "insert into public.memberships (org_id, user_id, email, role) values (%s, %s, 'p@x.org', %s)"
        world.owner.connection.execute(add, [org.id, person, base])
        made = world.owner.one("insert into public.teams (org_id, name) values (%s, 'tmp') returning id", org.id)
        join = "insert into public.team_members (team_id, org_id, user_id) values (%s, %s, %s)"
        world.owner.connection.execute(join, [made, org.id, person])
        for role, path, is_team in bindings:
            bind = (
                "insert into public.role_bindings (org_id, path, role, user_id, team_id) values (%s, %s, %s, %s, %s) "
                "on conflict do nothing"
            )
            one, other = (None, made) if is_team else (person, None)
            world.owner.connection.execute(bind, [org.id, path, role, one, other])
        for path in [*PATHS, *MODULES]:
            above = [role for role, at, _ in bindings if at in ("", path) or path.startswith(f"{at}/")]
            expected = set().union(*(verbs[role] for role in [base, *above]))
            may = "select v.verb from private.verbs as v where private.may(v.verb, %s, %s, %s)"
            assert set(world.owner.rows(may, org.id, path, person)) == expected, path


@pytest.mark.parametrize(
    ("function", "given", "code", "words"),
    [
        ("grant_role", {"p_role": "pilot"}, "RY404", 'There is no role "pilot".'),
        ("grant_role", {"p_role": "planner"}, "RY409", "sre is planner there already."),
        ("revoke_role", {"p_binding": "unknown"}, "RY404", "There is no such access."),
        ("explain_access", {"p_verb": "job.fly"}, "RY404", 'There is no verb "job.fly".'),
        ("create_team", {"p_name": "SRE"}, "RY409", 'There is already a team "SRE".'),
        ("create_team", {"p_name": "-"}, "RY422", "A team's name has 1 to 63 letters, digits, spaces, dots,"),
        ("delete_team", {"p_team": "unknown"}, "RY404", "There is no such team."),
        ("set_role", {"p_name": "Odd"}, "RY422", "A role's name has 2 to 40 lower-case letters, digits and hyphens."),
        ("set_role", {"p_name": "odd", "p_verbs": "{job.fly}"}, "RY422", "A role cannot have: job.fly."),
        ("delete_role", {"p_name": "pilot"}, "RY404", 'There is no own role "pilot".'),
        ("delete_role", {"p_name": "ours"}, "RY409", 'Somebody has the role "ours".'),
    ],
)
def test_wrong_names_and_used_roles_are_refused(
    tree: Organization, function: str, given: dict[str, Any], code: str, words: str
) -> None:
    sre = team(tree, "sre")
    whole = {"p_org": tree.id, "p_path": "a", "p_kind": "team", "p_subject": sre}
    tree.owner.call("set_role", p_org=tree.id, p_name="ours", p_verbs="{job.plan}")
    for role in ("planner", "ours"):
        tree.owner.call("grant_role", p_role=role, **whole)
    usual: dict[str, dict[str, Any]] = {
        "grant_role": whole,
        "explain_access": {"p_org": tree.id, "p_path": "a", "p_user": tree.owner.id},
        "create_team": {"p_org": tree.id},
        "set_role": {"p_org": tree.id, "p_verbs": "{job.plan}"},
        "delete_role": {"p_org": tree.id},
    }
    given = {name: str(uuid.uuid4()) if value == "unknown" else value for name, value in given.items()}
    with refused(code, words):
        tree.owner.call(function, **usual.get(function, {}) | given)


def test_a_token_for_one_path_names_a_role_too(tree: Organization) -> None:
    with refused("RY422", "A token for one group needs a role, too."):
        make(tree.owner, f"alone {tree.owner.id}", p_path="a")


def test_a_planner_cancels_a_plan_of_their_own_and_no_other(tree: Organization) -> None:
    planner = tree.member("viewer")
    grant(tree, "planner", "a", planner)
    mine = run(planner, tree, "a/b/c")
    assert planner.call("cancel_job", p_job=mine["id"])["status"] == "CANCELLED"
    theirs = run(tree.owner, tree, "a/b/c")
    with refused("RY403", "You need job.cancel at a/b/c"):
        planner.call("cancel_job", p_job=theirs["id"])
