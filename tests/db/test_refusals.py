"""Refusals that no other test covers: the request, the code, and the message that a person reads."""

import ast
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.db.world import TOKEN_HASH, Caller, Organization, World, refused
from tests.support.schemas import schema_files

Ask = Callable[[Organization], Any]
# Letters of a message that a test must name, where it does not name all of what never changes in it.
LEAST = 20
NOBODY = "5b0a7a52-0000-4000-8000-00000000dead"


def owner(function: str, **arguments: Any) -> Ask:
    """The owner requests this in their organisation."""
    return lambda org: org.owner.call(function, p_org=org.id, **arguments)


def invite(email: str | None = "a@example.org", secret: str = "0" * 64) -> Ask:
    return owner("invite_member", p_email=email, p_role="viewer", p_token_hash=secret)


def withdraw_twice(org: Organization) -> None:
    made = org.owner.call(
        "invite_member", p_org=org.id, p_email="b@example.org", p_role="viewer", p_token_hash="0" * 64
    )
    for _ in range(2):
        org.owner.call("revoke_invitation", p_invitation=made["id"])


def found_another(org: Organization) -> None:
    org.world.owner.connection.execute(
        "with made as (insert into public.organizations (slug, name)"
        " select 'more-' || n, 'More' from generate_series(1, 19) as n returning id)"
        " insert into public.memberships (org_id, user_id, email, role) select id, %s, %s, 'owner' from made",
        [org.owner.id, org.owner.email],
    )
    org.owner.call("create_organization", p_name="One more", p_slug="one-more")


def open_session(org: Organization) -> None:
    worker = org.worker("r1")
    token = org.world.service.call("worker_token_hashes", p_worker=worker)[0]["token_id"]
    org.world.service.call(
        "open_worker_session", p_worker=worker, p_instance="not a name", p_boot_id=NOBODY, p_token=token
    )


def retry_without_a_module(org: Organization) -> None:
    job = org.enqueue("a/b")
    org.owner.call("cancel_job", p_job=job)
    org.owner.call("delete_module", p_module=org.modules["a/b"], p_confirm_name="b")
    org.owner.call("retry_job", p_job=job)


def cancel_what_needs_a_decision(org: Organization) -> None:
    runner = org.runner("r1", is_assigned_to_all_modules=True)
    job = org.enqueue("a/b", "APPLY")
    runner.report(runner.claim_one(), "APPLY")
    org.world.lose(runner)
    org.owner.call("cancel_job", p_job=job)


def update_account(org: Organization) -> None:
    spec, secret = {"name": "ci", "path": ""}, {"p_secret_hash": TOKEN_HASH, "p_secret_hint": "abcd"}
    made = org.owner.call("create_service_account", p_org=org.id, p_spec=spec, **secret)
    org.owner.call("update_service_account", p_account=made["id"], p_spec={"name": "?"})


def worker_options(**options: Any) -> Ask:
    """The owner changes a runner's settings."""
    return lambda org: org.owner.call("update_worker", p_worker=org.worker("r1"), p_options=options)


def module(**spec: Any) -> Ask:
    return lambda org: org.module("a/b", **spec)


def job(**options: Any) -> Ask:
    return lambda org: org.enqueue("a/b", **options)


def held_lifecycle_job(org: Organization) -> int:
    """A job about a cloud identity that needs attention; such a job acts on no module."""
    runner = org.runner("r1", is_assigned_to_all_modules=True)
    made = org.owner.call("verify_cloud_identity", p_identity=org.cloud_identity())["job"]
    runner.report(runner.claim_one(), "APPLY")
    org.world.lose(runner)
    return int(made["id"])


def break_the_state_machine(org: Organization) -> None:
    job_id = org.enqueue("a/b")
    org.world.owner.connection.execute(
        "update public.provision_jobs set status = 'NEEDS_ATTENTION' where id = %s", [job_id]
    )


TOO_LONG = "A reason has at most 1,000 characters."
PEOPLE: dict[str, tuple[str, str, Ask]] = {
    "no role": ("RY422", "A member needs a role.", owner("set_member_role", p_user=NOBODY, p_role=None)),
    "an invitation to nothing": (
        "RY422",
        "A member needs a role.",
        owner("invite_member", p_email="a@example.org", p_role=None, p_token_hash="0" * 64),
    ),
    "an unknown invitation": (
        "RY404",
        "There is no such invitation.",
        lambda org: org.owner.call("revoke_invitation", p_invitation=NOBODY),
    ),
    "a step that is not in the table": (
        "RY409",
        "A job cannot go from QUEUED to NEEDS_ATTENTION.",
        break_the_state_machine,
    ),
    "an assignment as a setting": ("RY422", "Unknown option: assignments.", worker_options(assignments=[""])),
    "a date that is none": (
        "RY422",
        "That is not a time at which a token can end.",
        lambda org: org.worker("r1", token_expires_at="x"),
    ),
    "a label with a space": (
        "RY422",
        '"labels" is not a list of at most 32 labels like "gpu" or "gpu=true", of 1,000 characters in all.',
        worker_options(labels=["a b"]),
    ),
    "labels without end": (
        "RY422",
        '"labels" is not a list of at most 32 labels like "gpu" or "gpu=true", of 1,000 characters in all.',
        worker_options(labels=[f"label{number:02}=" + "x" * 60 for number in range(20)]),
    ),
    "less than no tasks": ("RY422", '"min" is not a whole number from 0 to 1000.', worker_options(scaling={"min": -1})),
    "more tasks than the most": (
        "RY422",
        "The least number of tasks is above the most, or a limit is null.",
        worker_options(scaling={"min": 3, "max": 2}),
    ),
    "too long a reason to drain": (
        "RY422",
        TOO_LONG,
        lambda org: org.owner.call("drain_worker", p_worker=org.worker("r1"), p_reason="r" * 1001),
    ),
    "an assignment to nothing": (
        "RY422",
        "Name a module or a group.",
        lambda org: org.owner.call("assign_worker", p_worker=org.worker("r1"), p_path=None),
    ),
    "neither disabled nor enabled": (
        "RY422",
        "Pass whether the runner is to be disabled: true or false.",
        lambda org: org.owner.call("set_worker_disabled", p_worker=org.worker("r1"), p_disabled=None),
    ),
    "a type that is none": ("RY422", "There is no such type of job.", worker_options(accepted_job_types=["DANCE"])),
    "no type of job": ("RY422", "A runner must take at least one type of job.", worker_options(accepted_job_types=[])),
    "an unknown account": ("RY404", "There is no such service account.", worker_options(service_account_id=NOBODY)),
    "a runner of no name": ("RY422", "The name or a setting of the runner is not valid.", lambda org: org.worker("?")),
    "an unknown group": (
        "RY404",
        "There is no such group.",
        lambda org: org.owner.call("delete_group", p_group=NOBODY),
    ),
    "a module for eleven": (
        "RY422",
        '"approvals_required" is not a whole number from 0 to 10.',
        module(approvals_required=11),
    ),
    "a module that knows not whether to apply": (
        "RY422",
        "A field of the module is out of range.",
        module(auto_apply=None),
    ),
    "a hook that is a number": (
        "RY422",
        "A hook must be a script of at most 64 KiB.",
        module(hooks={"before_init": 1}),
    ),
    "a variable with a hyphen": ("RY422", '"A-B" is not a valid env variable.', module(env={"A-B": "x"})),
    "a source from nowhere": ("RY422", 'A source of kind git needs "url".', module(source_kind="git", source={})),
    "a password in an address": (
        "RY422",
        "The address contains a password.",
        module(source_kind="git", source={"url": "https://a:b@example.org"}),
    ),
    "a source of a megabyte": (
        "RY422",
        "Source and extra files have at most 1 MiB together.",
        module(source={"files": {"main.tf": "x" * 1048577}}),
    ),
    "a limit of no second": ("RY422", "A time limit or a rule of drift is not valid.", module(time_limits={"plan": 0})),
    "a file elsewhere": (
        "RY422",
        'An extra file needs a relative path without ".." and a content.',
        module(extra_files=[{"path": "../x", "content": ""}]),
    ),
    "an engine that is none": ("RY422", "A field of the module has the wrong type.", module(engine="chalk")),
    "a long comment": (
        "RY422",
        "The comment is too long.",
        lambda org: org.member("operator").call(
            "approve_job",
            p_job=org.enqueue("a/b", "APPLY", approvals_required=1),
            p_decision="approve",
            p_comment="x" * 2001,
        ),
    ),
    "too urgent": ("RY422", '"priority" is not a whole number from 0 to 1000.', job(priority=-1)),
    "too long a reason": ("RY422", TOO_LONG, job(reason="r" * 1001)),
    "too long a reason to stop": (
        "RY422",
        TOO_LONG,
        lambda org: org.owner.call("cancel_job", p_job=org.enqueue("a/b"), p_reason="r" * 1001),
    ),
    "too long a reason to retry": (
        "RY422",
        TOO_LONG,
        lambda org: org.owner.call("retry_job", p_job=org.enqueue("a/b"), p_reason="r" * 1001),
    ),
    "urgent in words": ("RY422", '"priority" is not a whole number from 0 to 1000.', job(priority="very")),
    "a plan of nothing": (
        "RY422",
        "This job acts on no module, so there is nothing to plan.",
        lambda org: org.owner.call("resolve_attention", p_job=held_lifecycle_job(org), p_action="refresh_plan"),
    ),
    "many tasks": (
        "RY422",
        "That is not a number of tasks.",
        owner(
            "deploy_worker",
            p_name="x",
            p_cloud_identity=NOBODY,
            p_region="eu-west-1",
            p_options={"desired_count": 1001},
        ),
    ),
    "removing what was not deployed": (
        "RY422",
        '"r1" is self-hosted; Runyard did not deploy it.',
        lambda org: org.owner.call("remove_cloud_worker", p_worker=org.worker("r1")),
    ),
    "an unknown rollout": (
        "RY404",
        "There is no such rollout.",
        lambda org: org.owner.call("pause_rollout", p_rollout=NOBODY),
    ),
    "tasks for a runner at home": (
        "RY422",
        "A decision needs a cloud-hosted runner and a count from 0 to 1,000.",
        lambda org: org.world.decide_scaling(org.worker("r1"), 1, "x"),
    ),
    "an identity of nobody": (
        "RY422",
        "A field of the cloud identity is missing or not valid.",
        owner("create_cloud_identity", p_spec={"name": "x"}),
    ),
    "an account that trusts nobody": (
        "RY422",
        "A service account needs a trusted issuer or a secret.",
        owner("create_service_account", p_spec={"name": "ci"}),
    ),
    "an account of no group": (
        "RY404",
        'There is no group "nowhere".',
        owner("create_service_account", p_spec={"name": "ci", "path": "nowhere", "trusts": [{"issuer": "https://i"}]}),
    ),
    "an account for no audience": (
        "RY422",
        "A field of the service account is missing or not valid.",
        owner("create_service_account", p_spec={"name": "ci", "trusts": [{"issuer": "https://i.example"}]}),
    ),
    "options that are a list": (
        "RY422",
        "The options must be a JSON object.",
        lambda org: org.owner.call("update_worker", p_worker=org.worker("r1"), p_options=["name"]),
    ),
    "the 21st organisation": ("RY413", "You own 20 organisations", found_another),
    "a secret in clear": ("RY422", "The hash of the link's secret is not a SHA-256", invite(secret="secret")),
    "no address": ("RY422", "That is not an email address.", invite(email="nobody")),
    "withdrawing twice": ("RY409", "This invitation was already accepted or withdrawn.", withdraw_twice),
    "a stranger's role": (
        "RY404",
        "That person is not a member.",
        owner("set_member_role", p_user=NOBODY, p_role="admin"),
    ),
    "a runner that is to have no name": (
        "RY422",
        "A setting of the runner is not valid.",
        lambda org: org.owner.call("update_worker", p_worker=org.worker("r1"), p_options={"name": "?"}),
    ),
    "an endless overlap": (
        "RY422",
        "The overlap must be between",
        lambda org: org.owner.call(
            "rotate_worker_token",
            p_worker=org.worker("r1"),
            p_token_hash=TOKEN_HASH,
            p_token_hint="abcd",
            p_overlap_seconds=-1,
        ),
    ),
    "an unknown token": (
        "RY404",
        "There is no such token.",
        lambda org: org.owner.call("revoke_worker_token", p_token=NOBODY),
    ),
    "an instance with spaces": ("RY422", "An instance name has 1 to 100", open_session),
    "a long description": (
        "RY422",
        "The group is not valid.",
        owner("upsert_group", p_path="a", p_description="x" * 2001),
    ),
    "long variables of a group": (
        "RY422",
        '"A" is not a valid env variable.',
        owner("upsert_group", p_path="a", p_env={"A": "x" * 65536}),
    ),
    "a pin to nobody": (
        "RY404",
        "The runner that the module should be pinned to",
        lambda org: org.module("a/b", pinned_worker_id=NOBODY),
    ),
    "a module without a name": (
        "RY422",
        "That is not a name for a module.",
        owner("create_module", p_group_path="a", p_name="No Name"),
    ),
    "retrying for nothing": ("RY409", "Its module was removed.", retry_without_a_module),
    "cancelling what hangs": ("RY409", "Nothing is running; the job needs a decision.", cancel_what_needs_a_decision),
    "an identity without a name": (
        "RY422",
        "A field of the cloud identity is not valid.",
        lambda org: org.owner.call(
            "update_cloud_identity", p_identity=org.cloud_identity(), p_spec={"role_arn": "not an arn"}
        ),
    ),
    "a secret that is not a hash": (
        "RY422",
        "The secret must come as a bcrypt hash of cost 8 to 12.",
        owner("create_service_account", p_spec={"name": "ci", "path": ""}, p_secret_hash="s", p_secret_hint="abcd"),
    ),
    "an account of no name": ("RY422", "A field of the service account is not valid.", update_account),
}


def trust(size: int) -> list[dict[str, Any]]:
    return [{"issuer": "https://x.example", "audience": "a", "bound_claims": {"sub": "x" * size}}]


IDENTITY: list[dict[str, Any]] = [
    {"role_arn": "arn:aws:iam::123456789012:role/" + "x" * 2048},
    {"regions": ["x" * 2001]},
    {"network": {"subnets": ["x" * 16384]}},
]
TOO_LARGE: list[Ask] = [
    invite("x" * 320 + "@example.org"),
    lambda org: org.account(trusts=trust(8192)),
    lambda org: org.owner.call("update_service_account", p_account=org.account()["id"], p_spec={"trusts": trust(8192)}),
    *(lambda org, spec=spec: org.cloud_identity(**spec) for spec in IDENTITY),
    *(
        lambda org, spec=spec: org.owner.call("update_cloud_identity", p_identity=org.cloud_identity(), p_spec=spec)
        for spec in IDENTITY
    ),
]


@pytest.mark.parametrize("ask", TOO_LARGE)
def test_values_that_are_too_large_are_refused(org: Organization, ask: Ask) -> None:
    with refused("RY422"):
        ask(org)


@pytest.mark.parametrize("what", PEOPLE)
def test_each_refusal_of_a_person_has_its_code_and_message(org: Organization, what: str) -> None:
    code, words, ask = PEOPLE[what]
    with refused(code) as caught:
        ask(org)
    assert str(caught.value.diag.message_primary).startswith(words)


def test_nobody_founds_an_organisation(world: World) -> None:
    nobody: Caller = world.caller("authenticated")
    with refused("RY403") as caught:
        nobody.call("create_organization", p_name="X", p_slug="x-x")
    assert caught.value.diag.message_primary == "Nobody is signed in."


# ---------------------------------------------------------------------- every refusal has a test

REFUSAL = re.compile(r"private\.fail\('(RY\d{3})',\s*(?:format\(\s*)?'((?:[^']|'')+)'")


def refusals() -> set[str]:
    """The messages of all refusals, with %s where something is filled in."""
    texts = [file.read_text() for file in schema_files()]
    found = [message for text in texts for _, message in REFUSAL.findall(text)]
    assert len(found) == sum(len(re.findall(r"(?:perform|select) private\.fail\(", text)) for text in texts), (
        "a refusal is written in another way"
    )
    return {message.replace("''", "'") for message in found}


def words_of_tests() -> set[str]:
    """Every string in a test of the database."""
    trees = [ast.parse(file.read_text()) for file in Path(__file__).parent.glob("*.py")]
    return {
        node.value
        for tree in trees
        for node in ast.walk(tree)
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
    }


def is_said(message: str, words: set[str]) -> bool:
    """Whether some test expects this message: its longest part that is always the same, or at least how it begins."""
    longest = max(message.split("%s"), key=len).strip(' "')
    return any(longest in said or (len(said) >= LEAST and message.startswith(said)) for said in words)


def test_every_refusal_is_expected_by_a_test() -> None:
    words = words_of_tests()
    assert [message for message in sorted(refusals()) if not is_said(message, words)] == []
