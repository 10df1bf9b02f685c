"""Units of Terragrunt as modules: their dependencies are proposed with bindings, by folder, where source and ref are the same."""

from typing import Any

import pytest

from tests.db.world import ENGINES, Organization, Runner, refused

URL = "https://git.example.com/team/live.git"
APP_READS = [{"folder": "prod/vpc", "bindings": {"vpc:id": "id"}}, {"folder": "prod/queue", "bindings": {}}]


def root(folder: str, reads: list[dict[str, Any]] | None = None) -> dict[str, Any]:
    return {
        "folder": folder, "path": f"old/{folder}", "engine": "terragrunt", "backend": "s3", "required_version": "",
        "workspaces": [], "problem": "", "reads": reads or [],
    }  # fmt: skip


@pytest.fixture
def runner(org: Organization) -> Runner:
    found = org.runner("r1", is_assigned_to_all_modules=True)
    found.heartbeat(p_facts={"engines": ENGINES | {"terragrunt": "1.0.0"}})
    return found


@pytest.fixture
def modules(org: Organization, runner: Runner) -> dict[str, str]:
    """Three units of one repository, and one of the same folder in another branch."""
    source = {"group": "old", "url": URL, "ref": "main"}
    made = org.owner.call("request_survey", p_org=org.id, p_source=source)
    roots = [root("prod/app", APP_READS), root("prod/queue"), root("prod/vpc")]
    runner.finish(runner.claim_one(), p_result={"roots": roots})
    org.module("other/vpc", source_kind="git", source={"url": URL, "ref": "next", "subfolder": "prod/vpc"})
    folders = [each["folder"] for each in roots]
    done = org.owner.call("bring_modules", p_job=made["id"], p_folders=folders)
    return {folder: each["id"] for folder, each in zip(folders, done, strict=True)}


def proposals(org: Organization) -> list[tuple[str, str, dict[str, str]]]:
    found = org.owner.call("list_dependencies", p_org=org.id)["proposals"]
    return [(row["consumer"], row["producer"], row["bindings"]) for row in found]


def accept(org: Organization, modules: dict[str, str], consumer: str, producer: str, bindings: dict[str, Any]) -> None:
    ends = {"p_consumer": modules[consumer], "p_producer": modules[producer]}
    org.owner.call("set_dependency", **ends, p_options={"bindings": bindings})


def test_units_that_come_together_propose_what_their_code_depends_on(
    org: Organization, modules: dict[str, str]
) -> None:
    queue = ("old/prod/app", "old/prod/queue", {})
    assert proposals(org) == [queue, ("old/prod/app", "old/prod/vpc", {"vpc:id": "id"})]
    accept(org, modules, "prod/app", "prod/vpc", {})
    assert proposals(org) == [queue, ("old/prod/app", "old/prod/vpc", {"vpc:id": "id"})]
    accept(org, modules, "prod/app", "prod/vpc", {"vpc:id": "id"})
    assert proposals(org) == [queue]


def test_a_plan_changes_what_is_proposed_also_when_it_fails(
    org: Organization, runner: Runner, modules: dict[str, str]
) -> None:
    def plan(status: str, *reads: dict[str, Any]) -> list[tuple[str, str, dict[str, str]]]:
        org.owner.call("enqueue_job", p_org=org.id, p_type="PLAN", p_module=modules["prod/queue"], p_options={})
        runner.finish(runner.claim_one(), status, p_result={"reads": list(reads)})
        return [each for each in proposals(org) if each[0] == "old/prod/queue"]

    vpc = {"folder": "prod/vpc", "bindings": {"vpc:id": "id", "vpc:zones": "zones"}}
    assert plan("FAILED", vpc) == [("old/prod/queue", "old/prod/vpc", vpc["bindings"])]
    assert plan("FAILED") == [("old/prod/queue", "old/prod/vpc", vpc["bindings"])]
    assert plan("SUCCEEDED", {"folder": "prod/vpc"}) == [("old/prod/queue", "old/prod/vpc", {})]
    assert plan("SUCCEEDED", {"folder": "prod/gone"}, {"folder": None, "bindings": None}) == []


def test_units_that_depend_on_each_other_in_a_circle_are_refused(org: Organization, modules: dict[str, str]) -> None:
    accept(org, modules, "prod/app", "prod/vpc", {})
    with refused("RY409", "This would be a cycle: "):
        accept(org, modules, "prod/vpc", "prod/app", {})


@pytest.mark.parametrize(
    ("engines", "words"),
    [({}, "No runner that may run it has terragrunt."),
     ({"terragrunt": "0.99.4"}, "No runner that may run it has terragrunt >= 1.0.")],
)  # fmt: skip
def test_a_job_that_no_runner_can_do_waits_and_says_why(
    org: Organization, runner: Runner, engines: dict[str, str], words: str
) -> None:
    org.module("a/unit", engine="terragrunt", engine_version=">= 1.0")
    runner.heartbeat(p_facts={"engines": ENGINES | engines})
    job = org.enqueue("a/unit")
    assert runner.claim() == []
    assert words in org.owner.call("explain_queue", p_job=job)["summary"]
    runner.heartbeat(p_facts={"engines": ENGINES | {"terragrunt": "1.0.0"}})
    assert runner.claim_one()["id"] == job
