"""Commands in comments: done as the member whose login wrote them, once, with that member's rights, and answered."""

import uuid
from datetime import timedelta
from typing import Any

import pytest

from tests.db.git_site import Site, announce, commit, first_reading, merged, open_site, push
from tests.db.test_git_reports import TOKEN, sent
from tests.db.world import Organization, User, World, refused

CHANGES = {"has_changes": True, "create": 1}
FORK = "It comes from a fork: a plan is for one commit, which you name."
STRANGER = "This account is not linked to a member of the organisation."
LOGIN = {"p_host": "git.example.com", "p_login": "ann"}


@pytest.fixture
def site(world: World, org: Organization) -> Site:
    made = open_site(world, org)
    first_reading(made)
    org.owner.call("update_git_connection", p_connection=made[3], p_spec={"token": TOKEN})
    return made


def link(site: Site, role: str = "operator") -> User:
    member = site[1].member(role)
    site[1].owner.call("link_git_login", p_org=site[1].id, p_user=member.id, **LOGIN)
    return member


def prove(site: Site, member: User | None = None, login: str = "ann", account: str = "11") -> User:
    """A member whose login has written the member's code."""
    member = member or site[1].member("operator")
    made = member.call("request_git_link", p_org=site[1].id, p_host=LOGIN["p_host"], p_login=login)
    code = made["comment"].removeprefix("/runyard link ")
    assert say(site, "link", code, login, account).startswith("DONE")
    return member


def say(site: Site, verb: str, argument: str = "", sender: str = "Ann", account: str = "11", **more: Any) -> str:
    """Comment as somebody; return the verdict and the reason."""
    comment = {
        "id": uuid.uuid4().int % 10**12, "number": 7, "verb": verb, "argument": argument, "sender_id": account, **more,
    }  # fmt: skip
    answer = push(
        site[0], site[3], event="comment", action="created", sender=sender, comment=comment, ref=None, after=None
    )
    return f"{answer['verdict']}: {answer['reason']}"


def planned(site: Site) -> dict[str, Any]:
    announce(site, 5)
    (plan,) = merged(site, 5, dns="d1", vpc="v2")
    site[2].finish(plan, p_plan_summary=CHANGES, p_result={"change_digest": "d" * 64})
    return plan


def answers(site: Site) -> list[tuple[str, str | None]]:
    return [(each["reaction"], each["answer"]) for each in sent(site) if each["kind"] == "answer"]


def test_plan_reads_the_pull_request_again_as_the_member(site: Site) -> None:
    member, first = link(site), planned(site)
    assert say(site, "plan") == "DONE: Done: /runyard plan"
    assert answers(site) == [("+1", None)]
    (again,) = merged(site, 5, dns="d1", vpc="v2")
    assert again["id"] != first["id"]
    said = "select created_by from public.provision_jobs where type = 'RESOLVE' order by id desc limit 1"
    assert str(site[0].owner.one(said)) == member.id


def test_confirm_reviews_the_plan_as_the_member_once(site: Site) -> None:
    plan, member = planned(site), prove(site)
    assert say(site, "confirm", "net/vpc").startswith("DONE")
    found = site[1].owner.one("select user_id, decision from public.approvals where job_id = %s", plan["id"])
    assert (str(found[0]), found[1]) == (member.id, "approve")
    assert say(site, "confirm").startswith("REFUSED: You have already decided about this job.")
    assert site[0].owner.one("select count(*) from private.delegations") == 0


def test_apply_and_unlock_work_before_the_merge(site: Site) -> None:
    _, org, runner, _ = site
    planned(site)
    prove(site)
    assert say(site, "apply").startswith("REFUSED: Nothing of pull request #7 can be applied.")
    org.owner.call("set_module_git", p_module=org.modules["net/vpc"], p_spec={"apply": "before_merge"})
    assert say(site, "unlock").startswith("REFUSED: No module is locked to #7.")
    assert say(site, "apply", "net/vpc").startswith("DONE")
    assert runner.claim_one()["type"] == "APPLY"
    assert say(site, "unlock").startswith("DONE")
    assert org.owner.rows("select module_id from public.module_locks") == []


@pytest.mark.parametrize(
    ("verb", "argument", "words"),
    [
        ("deploy", "", '"deploy" is not a command. Write /runyard plan, apply, confirm, unlock or help.'),
        ("plan", "net/none", 'There is no module "net/none" in this repository.'),
        ("confirm", "", "Nothing of #7 waits for a confirmation."),
    ],
)
def test_a_wrong_command_is_answered_once(site: Site, verb: str, argument: str, words: str) -> None:
    announce(site, 5)
    prove(site)
    for _ in range(2):
        assert words in say(site, verb, argument)
    (_, first, second) = answers(site)
    assert (first[0], words in str(first[1]), second) == ("confused", True, ("confused", None))


@pytest.mark.parametrize("verb", ["confirm", "apply"])
def test_a_login_that_an_admin_linked_neither_approves_nor_applies(site: Site, verb: str) -> None:
    _, org, _, _ = site
    org.owner.call("set_module_git", p_module=org.modules["net/vpc"], p_spec={"apply": "before_merge"})
    admin, plan = org.member("admin"), planned(site)
    admin.call("link_git_login", p_org=org.id, p_user=org.owner.id, **LOGIN)
    words = "REFUSED: An admin linked this account, so its comments neither approve nor apply."
    assert say(site, verb).startswith(words)
    assert org.owner.rows("select user_id from public.approvals where job_id = %s", plan["id"]) == []
    prove(site, org.owner)
    assert say(site, verb).startswith("DONE")
    admin.call("link_git_login", p_org=org.id, p_user=org.owner.id, **LOGIN)
    assert say(site, verb).startswith(words), "an admin who links it again takes the proof with it"


def test_strangers_and_members_without_the_right_start_nothing(site: Site) -> None:
    runner = site[2]
    planned(site)
    assert STRANGER in say(site, "plan")
    assert STRANGER in say(site, "plan", sender="bob", account="12")
    link(site, "viewer")
    assert "your role is viewer" in say(site, "plan")
    assert runner.claim(10) == []
    assert [text is None for _, text in answers(site)] == [False, True, False]


def test_a_login_that_changed_hands_is_refused(site: Site) -> None:
    link(site)
    announce(site, 5)
    assert say(site, "help").startswith("DONE")
    assert STRANGER in say(site, "help", account="99")


def test_a_member_who_left_and_an_ended_link_start_nothing(site: Site) -> None:
    _, org, _, _ = site
    member = link(site)
    announce(site, 5)
    org.owner.call("remove_member", p_org=org.id, p_user=member.id)
    assert STRANGER in say(site, "help")
    link(site)
    org.owner.call("unlink_git_login", p_org=org.id, **LOGIN)
    assert STRANGER in say(site, "help")


def test_a_comment_is_a_command_once_and_other_comments_are_none(site: Site) -> None:
    link(site)
    announce(site, 5)
    assert say(site, "help", id=5).startswith("DONE")
    assert say(site, "help", id=5) == "IGNORED: The comment was read before."
    answer = push(site[0], site[3], event="comment", action="created", ref=None, after=None)
    assert answer["verdict"] == "IGNORED"


def test_a_comment_whose_first_event_is_not_kept_any_more_starts_nothing(site: Site) -> None:
    world = site[0]
    link(site)
    announce(site, 5)
    now = world.owner.one("select now()")
    written = (now - timedelta(days=28)).isoformat()
    assert say(site, "help", id=5, created_at=written).startswith("DONE")
    assert say(site, "help", id=5, created_at=written) == "IGNORED: The comment was read before."
    world.owner.connection.execute("update git_deliveries set received_at = now() - interval '31 days'")
    world.owner.connection.execute("select private.remove_old_rows('old_git_deliveries')")
    old = (now - timedelta(days=30)).isoformat()
    assert say(site, "help", id=5, created_at=old).startswith("IGNORED: The comment is older than events are kept.")


def test_only_admins_link_logins_of_members(site: Site) -> None:
    _, org, _, _ = site
    operator = org.member("operator")
    with refused("RY403"):
        operator.call("link_git_login", p_org=org.id, p_user=operator.id, **LOGIN)
    with refused("RY404", "There is no such member."):
        org.owner.call("link_git_login", p_org=org.id, p_user=site[0].user().id, **LOGIN)
    with refused("RY422", "A link needs a host and a login."):
        org.owner.call("link_git_login", p_org=org.id, p_user=operator.id, p_host="", p_login="ann")
    with refused("RY404", "There is no such link."):
        org.owner.call("unlink_git_login", p_org=org.id, **LOGIN)
    org.owner.call("link_git_login", p_org=org.id, p_user=operator.id, **LOGIN)
    (row,) = operator.call("list_git_logins", p_org=org.id)
    assert (row["login"], row["email"]) == ("ann", operator.email)


def fork(site: Site, head: int = 5, **more: Any) -> dict[str, Any]:
    return announce(site, head, is_fork=True, **more)


def test_a_fork_is_planned_for_the_commit_that_a_member_names_and_never_applied(site: Site) -> None:
    _, org, runner, connection = site
    link(site)
    named = {"p_connection": connection, "p_number": 7}
    org.owner.call(
        "update_git_connection", p_connection=connection, p_spec={"allows_forks": True, "allows_identities": True}
    )
    org.owner.call("set_module_git", p_module=org.modules["net/vpc"], p_spec={"apply": "before_merge"})
    org.owner.call(
        "attach_identity", p_org=org.id, p_path="net", p_spec={"kind": "custom", "name": "registry", "audience": "x"}
    )
    assert fork(site)["verdict"] == "IGNORED"
    assert FORK in say(site, "plan")
    assert FORK in say(site, "plan", commit(4))
    assert runner.claim(10) == []
    assert say(site, "plan", commit(5)).startswith("DONE")
    assert merged(site, 5, vpc="v2") == [], "this runner is not for forks"
    one = org.runner("untrusted", is_assigned_to_all_modules=True, labels=["untrusted=true"])
    plan = one.claim_one()
    assert plan["payload"]["options"]["git"]["is_fork"] is True
    assert one.call("worker_identities", p_job=plan["id"], p_attempt=plan["attempt"])["identities"] == []
    one.finish(plan, p_plan_summary=CHANGES, p_result={"change_digest": "d" * 64})
    with refused("RY409", "is never applied"):
        org.enqueue("net/vpc", "APPLY", plan_job_id=plan["id"])
    with refused("RY409"):
        org.owner.call("approve_job", p_job=plan["id"], p_decision="approve")
    with refused("RY409"):
        org.owner.call("apply_pull_request", **named)


def test_a_fork_gets_no_secrets_and_no_outputs_of_other_modules(site: Site) -> None:
    world, org, runner, connection = site
    org.owner.call("update_git_connection", p_connection=connection, p_spec={"allows_forks": True})
    org.owner.call(
        "set_variables", p_org=org.id, p_path="net", p_variables=[{"kind": "env", "name": "PLAIN", "value": "x"}]
    )
    key = org.owner.call("create_sealing_key", p_org=org.id, p_public_key="B" * 42 + "A=")["id"]
    world.owner.connection.execute(
        "insert into public.variables (org_id, path, kind, name, value, key_id, created_by_label)"
        " values (%s, 'net', 'env', 'SECRET', to_jsonb(%s::text), %s, 'test')",
        [org.id, "A" * 64, key],
    )
    ends = {"p_consumer": org.modules["net/vpc"], "p_producer": org.modules["net/dns"]}
    org.owner.call("grant_outputs", p_module=org.modules["net/dns"], p_reader=org.modules["net/vpc"])
    org.owner.call("set_dependency", **ends, p_options={"bindings": {"x": "y"}})
    fork(site)
    org.owner.call("plan_pull_request", p_connection=connection, p_number=7, p_commit=commit(5))
    merged(site, 5, vpc="v2")
    one = org.runner("untrusted", is_assigned_to_all_modules=True, labels=["untrusted=true"])
    plan = one.claim_one()
    named = {"p_job": plan["id"], "p_attempt": plan["attempt"]}
    assert [each["name"] for each in org.owner.call("list_job_variables", p_job=plan["id"])] == ["PLAIN"]
    with refused("RY422", "has inputs that are outputs of other modules, and a fork gets none."):
        one.call("worker_bound_values", **named)
    assert runner.claim(10) == []


def test_a_fork_is_planned_for_nobody_who_may_not_plan_all_that_it_changes(site: Site) -> None:
    world, org, _, connection = site
    org.owner.call("update_git_connection", p_connection=connection, p_spec={"allows_forks": True})
    planner = org.member("viewer")
    given = {"p_org": org.id, "p_path": "net/dns", "p_role": "planner", "p_kind": "member", "p_subject": planner.id}
    org.owner.call("grant_role", **given)
    fork(site)
    for module in (org.modules["net/dns"], str(uuid.uuid4())):
        asked = {"p_connection": connection, "p_number": 7, "p_module": module, "p_commit": commit(5)}
        with refused("RY403", "You need job.plan at net/vpc"):
            planner.call("plan_pull_request", **asked)
    assert world.owner.rows("select 1 from public.pull_requests where allowed_commit is not null") == []


def test_a_fork_that_moved_after_the_request_is_not_planned(site: Site) -> None:
    _, org, _, connection = site
    org.owner.call("update_git_connection", p_connection=connection, p_spec={"allows_forks": True})
    fork(site)
    org.owner.call("plan_pull_request", p_connection=connection, p_number=7, p_commit=commit(5))
    assert merged(site, 6, vpc="v2") == []
    assert org.owner.rows("select id from public.provision_jobs where type = 'PLAN'") == []


def test_a_commit_of_a_fork_is_planned_once_for_each_request(site: Site) -> None:
    world, org, runner, connection = site
    org.owner.call("update_git_connection", p_connection=connection, p_spec={"allows_forks": True})
    fork(site)
    request = {"p_connection": connection, "p_number": 7, "p_commit": commit(5)}
    org.owner.call("plan_pull_request", **request)
    merged(site, 5, vpc="v2")
    push(world, connection)
    job = runner.claim_one()
    assert runner.call("worker_resolve", p_job=job["id"], p_attempt=job["attempt"])["pull_requests"] == []
    runner.finish(job, p_result={"git": {"modules": []}})
    org.owner.call("plan_pull_request", **request)
    merged(site, 5, vpc="v2")
    assert org.owner.one("select count(*) from public.provision_jobs where type = 'PLAN'") == 2


def test_a_newer_commit_of_a_fork_says_that_it_needs_a_request(site: Site) -> None:
    _, org, _, connection = site
    org.owner.call("update_git_connection", p_connection=connection, p_spec={"allows_forks": True})
    fork(site)
    org.owner.call("plan_pull_request", p_connection=connection, p_number=7, p_commit=commit(5))
    merged(site, 5, vpc="v2")
    words = f"It comes from a fork: nothing runs until a member requests a plan of its commit {commit(6)}."
    assert announce(site, 6, is_fork=True)["reason"] == words
    assert org.owner.call("git_change", p_connection=connection, p_number=7)["pull"]["problem"] == words
    with refused("RY409", FORK):
        org.owner.call("plan_pull_request", p_connection=connection, p_number=7, p_commit=commit(5))
    org.owner.call("plan_pull_request", p_connection=connection, p_number=7, p_commit=commit(6))
    merged(site, 6, vpc="v2")
    assert org.owner.call("git_change", p_connection=connection, p_number=7)["pull"]["problem"] is None


def test_a_fork_that_was_announced_before_forks_were_allowed_is_known(site: Site) -> None:
    _, org, _, connection = site
    assert fork(site)["verdict"] == "IGNORED"
    org.owner.call("update_git_connection", p_connection=connection, p_spec={"allows_forks": True})
    job = org.owner.call("plan_pull_request", p_connection=connection, p_number=7, p_commit=commit(5))
    assert (job["type"], job["status"]) == ("RESOLVE", "QUEUED"), "the job that was just queued is the answer"


def test_a_fork_is_refused_where_forks_are_not_allowed(site: Site) -> None:
    _, org, runner, connection = site
    fork(site)
    with refused("RY409", FORK):
        org.owner.call("plan_pull_request", p_connection=connection, p_number=7, p_commit=commit(5))
    with refused("RY404", "There is no open pull request #8."):
        org.owner.call("plan_pull_request", p_connection=connection, p_number=8)
    assert runner.claim(10) == []


def test_a_member_proves_a_login_with_a_code_that_only_that_login_can_use(site: Site) -> None:
    world, org, _, _ = site
    member, code_of = org.member("operator"), lambda made: made["comment"].removeprefix("/runyard link ")
    planned(site)
    invalid = "REFUSED: This code is not valid for your login."
    code = code_of(member.call("request_git_link", p_org=org.id, p_host="git.example.com", p_login="@Ann"))
    assert say(site, "link", code, "eve", "12").startswith(invalid), "a code that others read is useless to them"
    assert say(site, "link", code).startswith("DONE")
    assert say(site, "link", code).startswith(invalid), "it works once"
    (linked,) = member.call("list_git_logins", p_org=org.id)
    assert (linked["login"], linked["user_id"], linked["account_id"]) == ("ann", member.id, "11")
    assert say(site, "plan") == "DONE: Done: /runyard plan"
    other = org.member("viewer")
    code = code_of(other.call("request_git_link", p_org=org.id, p_host="git.example.com", p_login="ann"))
    assert say(site, "link", code).startswith("REFUSED: This login is linked to another member or account.")
    with refused("RY403"):
        other.call("unlink_git_login", p_org=org.id, **LOGIN)
    member.call("unlink_git_login", p_org=org.id, **LOGIN)
    world.owner.connection.execute("update private.git_link_codes set expires_at = now()")
    assert say(site, "link", code).startswith(invalid)
    with refused("RY422", "A link needs a host and a login."):
        member.call("request_git_link", p_org=org.id, p_host="", p_login="x")
    with refused("RY409", "A service account has no login of its own."):
        org.acting(org.account("operator")).call("request_git_link", p_org=org.id, p_host="h", p_login="x")
