"""Refusals that no story elsewhere meets: what was asked, the code, and the words that a person reads."""

from collections.abc import Callable
from typing import Any

import pytest

from tests.db.world import TOKEN_HASH, Caller, Organization, Runner, World, refused

Ask = Callable[[Organization], Any]
NOBODY = "5b0a7a52-0000-4000-8000-00000000dead"


def owner(function: str, **arguments: Any) -> Ask:
    """The owner asks for this in their organisation."""
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


def delete_group_with_a_past(org: Organization) -> None:
    module = org.module("past/gone")
    group = org.world.owner.one("select group_id::text from public.modules where id = %s", module)
    org.owner.call("delete_module", p_module=module, p_confirm_name="gone")
    org.owner.call("delete_group", p_group=group)


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


PEOPLE: dict[str, tuple[str, str, Ask]] = {
    "options that are a list": (
        "RY422",
        "The options must be a JSON object.",
        lambda org: org.owner.call("update_worker", p_worker=org.worker("r1"), p_options=["name"]),
    ),
    "the 21st organisation": ("RY429", "You own 20 organisations", found_another),
    "a secret in clear": ("RY422", "The hash of the link's secret is not a SHA-256", invite(secret="secret")),
    "no address": ("RY422", "That is not an e-mail address.", invite(email="nobody")),
    "withdrawing twice": ("RY409", "This invitation was already accepted or withdrawn.", withdraw_twice),
    "a stranger's role": (
        "RY404",
        "That person is not a member.",
        owner("set_member_role", p_user=NOBODY, p_role="admin"),
    ),
    "a runner of no size": (
        "RY422",
        "A setting of the runner is not valid.",
        lambda org: org.owner.call("update_worker", p_worker=org.worker("r1"), p_options={"capacity": 0}),
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
        "The description is too long.",
        owner("upsert_group", p_path="a", p_description="x" * 2001),
    ),
    "a group with a past": ("RY409", 'Removed modules of "past" still have a history.', delete_group_with_a_past),
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
    "a secret that is no hash": (
        "RY422",
        "The secret must come as a bcrypt hash.",
        owner("create_service_account", p_spec={"name": "ci", "path": ""}, p_secret_hash="s", p_secret_hint="abcd"),
    ),
    "an account of no name": ("RY422", "A field of the service account is not valid.", update_account),
}


@pytest.mark.parametrize("what", PEOPLE)
def test_people_are_told_what_is_wrong(org: Organization, what: str) -> None:
    code, words, ask = PEOPLE[what]
    with refused(code) as caught:
        ask(org)
    assert str(caught.value.diag.message_primary).startswith(words)


def test_nobody_founds_an_organisation(world: World) -> None:
    nobody: Caller = world.caller("authenticated")
    with refused("RY403") as caught:
        nobody.call("create_organization", p_name="X", p_slug="x-x")
    assert caught.value.diag.message_primary == "Nobody is signed in."


RUNNERS: dict[str, tuple[str, str, Callable[[Runner, dict[str, Any]], Any]]] = {
    "an end that is none": (
        "RY422",
        "A job ends as SUCCEEDED, FAILED or CANCELLED.",
        lambda runner, job: runner.finish(job, "PROCESSING"),
    ),
    "an end of nothing": (
        "RY422",
        "A job ends as SUCCEEDED, FAILED or CANCELLED.",
        lambda runner, _: runner.call(
            "worker_step", p_request_id=NOBODY, p_finished=[{"status": "SUCCEEDED"}], p_slots=0
        ),
    ),
    "a status that is none": (
        "RY422",
        "A runner says ONLINE or DRAINING.",
        lambda runner, _: runner.beat(status="ASLEEP"),
    ),
    "an endless log": (
        "RY422",
        "A log has at most 1,000,000 chunks.",
        lambda runner, job: runner.finish(job, p_log={"last_seq": 1_000_001}),
    ),
    "an artifact without a name": (
        "RY422",
        "The artifact is too large, its name is not valid",
        lambda runner, job: runner.call(
            "worker_put_artifact",
            p_job=job["id"],
            p_attempt=1,
            p_name="../plan",
            p_body_base64="",
            p_sha256="e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855",
        ),
    ),
}


@pytest.mark.parametrize("what", RUNNERS)
def test_runners_are_told_what_is_wrong(org: Organization, what: str) -> None:
    code, words, ask = RUNNERS[what]
    runner = org.runner("r1", is_assigned_to_all_modules=True)
    org.enqueue("a/b")
    job = runner.claim_one()
    with refused(code) as caught:
        ask(runner, job)
    assert str(caught.value.diag.message_primary).startswith(words)
