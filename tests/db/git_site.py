"""A connected repository, and a runner that reads it as the test directs."""

import uuid
from typing import Any

from tests.db.world import Organization, Runner, World

SEALED = "s1." + "a" * 60
URL = "https://git.example.com/infra/edge.git"
Site = tuple[World, Organization, Runner, str]


def commit(number: int) -> str:
    return f"{number:040x}"


def open_site(world: World, org: Organization) -> Site:
    """A connected repository with two modules, both read once, and a runner."""
    for name in ("dns", "vpc"):
        org.module(f"net/{name}", source_kind="git", source={"url": URL, "ref": "main", "subfolder": name})
    runner = org.runner("one", is_assigned_to_all_modules=True, capacity=20)
    made = org.owner.call(
        "connect_repository", p_org=org.id, p_spec={"provider": "gitea", "url": URL, "webhook_secret": SEALED}
    )
    return world, org, runner, made["id"]


def push(world: World, connection: str, delivery: str = "", **more: Any) -> dict[str, Any]:
    said = {"delivery_id": delivery or str(uuid.uuid4()), "event": "push", "ref": "refs/heads/main", "after": commit(9)}
    answer: dict[str, Any] = world.service.call(
        "receive_git_delivery", p_connection=connection, p_delivery={**said, **more}
    )
    return answer


def read(site: Site, number: int, emails: tuple[str, ...] = (), **contents: str | None) -> list[dict[str, Any]]:
    """Claim the RESOLVE job as the runner and report these contents at a commit; return the jobs that follow."""
    _, org, runner, _ = site
    job = runner.claim_one()
    assert job["type"] == "RESOLVE"
    work = runner.call("worker_resolve", p_job=job["id"], p_attempt=job["attempt"])
    applied = {each["id"] for each in work["modules"] if each["applied_commit"] == commit(number)}
    modules = [
        {"id": module, "branch": "main", "commit": commit(number), "fingerprint": content}
        | ({"applied_fingerprint": content} if module in applied else {})
        for module, content in ((org.modules[f"net/{name}"], content) for name, content in contents.items())
    ]
    found = {
        "digest": work["digest"], "heads": {"refs/heads/main": commit(number)}, "modules": modules,
        "commits": {commit(number): {"author": "Ann", "subject": "A change", "emails": list(emails)}},
    }  # fmt: skip
    runner.finish(job, p_result={"git": found})
    return runner.claim(10)


def last(site: Site) -> dict[str, Any]:
    _, org, _, connection = site
    rows: list[dict[str, Any]] = org.owner.call("list_git_deliveries", p_org=org.id, p_connection=connection)
    return rows[0]


def first_reading(site: Site) -> None:
    _, org, _, connection = site
    org.owner.call("poll_repository", p_connection=connection)
    assert read(site, 1, dns="d1", vpc="v1") == []


def announce(site: Site, head: int, people: tuple[str, ...] = (), **more: Any) -> dict[str, Any]:
    world, _, _, connection = site
    pull = {
        "number": 7, "title": "A change", "base": "main", "head_commit": commit(head), "is_fork": False,
        "is_draft": False, "is_open": True, **more,
    }  # fmt: skip
    made = {"action": "opened", "ref": None, "after": None, "people": list(people), "pull": pull}
    return push(world, connection, event="pull_request", **made)


def merged(
    site: Site, head: int, problem: str | None = None, emails: tuple[str, ...] = (), **contents: str
) -> list[dict[str, Any]]:
    """Report the merge of the pull request as the runner; the base has the contents of the first reading."""
    _, org, runner, _ = site
    job = runner.claim_one()
    assert job["type"] == "RESOLVE"
    work = runner.call("worker_resolve", p_job=job["id"], p_attempt=job["attempt"])
    assert [(pull["number"], pull["base"], pull["ref"]) for pull in work["pull_requests"]] == [
        (7, "main", "refs/pull/7/head")
    ]
    bases = {"dns": "d1", "vpc": "v1"}
    modules = [
        {"id": org.modules[f"net/{name}"], "fingerprint": content, "base_fingerprint": bases[name]}
        for name, content in contents.items()
    ]
    pull = {
        "number": 7, "ref": "refs/pull/7/head", "base_commit": commit(1), "head_commit": commit(head),
        "modules": modules, "problem": problem, "emails": list(emails),
    }  # fmt: skip
    runner.finish(job, p_result={"git": {"digest": work["digest"], "modules": [], "pull_requests": [pull]}})
    return [each for each in runner.claim(10) if each["type"] == "PLAN"]
