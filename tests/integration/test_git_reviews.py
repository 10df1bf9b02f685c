"""Reviews of pull requests with real git: they count after a merge of the same content, and not after one made by hand."""

import json

import pytest

from tests.integration.git_bench import SECRET
from tests.integration.test_git_push import Repository, repository
from tests.support import webhooks
from tests.support.waiting import wait_until
from tests.unit.worker.steps.git_places import git

__all__ = ["repository"]
PULL = 7


def write(place: Repository, text: str) -> None:
    """Write a script of the module; no plan shows what is in it."""
    (place.folder / "app" / "after.sh").write_text(text)
    git(place.folder, "add", "-A")


def announce(place: Repository, head: str, **more: object) -> None:
    """Announce the pull request with this head, or its end."""
    git(place.folder, "update-ref", f"refs/pull/{PULL}/head", head)
    body = webhooks.pull_body(PULL, head, action="synchronize", **more)
    assert place.bench.http.post(
        place.webhook, content=body, headers=webhooks.gitea(SECRET, body, "pull_request")
    ).is_success


def read(place: Repository, head: str) -> None:
    """Wait until a runner has read the pull request at this head."""
    announce(place, head)

    def is_read() -> bool:
        change = place.bench.rpc("git_change", p_connection=place.connection, p_number=PULL)
        return change["commit"] == head and all(each["verdict"] != "PENDING" for each in change["deliveries"])

    wait_until(is_read, timeout_seconds=300, every_seconds=0.2)


def pull_plans(place: Repository) -> list[int]:
    return [each["id"] for each in place.plans("app") if each["payload"]["options"]["git"].get("pull_request") == PULL]


@pytest.mark.parametrize("merge", ["clean", "of the base by hand", "by hand"])
def test_a_review_counts_after_a_merge_of_the_same_content_alone(repository: Repository, merge: str) -> None:
    bench, folder = repository.bench, repository.folder
    git(folder, "checkout", "-q", "-b", "feature")
    write(repository, "echo feature")
    read(repository, repository.commit(app="feature"))
    plan = repository.planned("app")
    bench.rpc("approve_job", p_job=plan["id"], p_decision="approve")
    git(folder, "checkout", "-q", "main")
    if merge == "of the base by hand":
        write(repository, "echo main")
    repository.commit(db="meanwhile")
    git(folder, "checkout", "-q", "feature")
    git(folder, "merge", "-q", "--no-commit", "--strategy-option=ours", "main")
    if merge == "of the base by hand":
        write(repository, "echo something else")
    head = repository.commit("Merge main")
    read(repository, head)
    assert (pull_plans(repository) == [plan["id"]]) is (merge != "of the base by hand")
    git(folder, "checkout", "-q", "main")
    git(folder, "merge", "-q", "--no-ff", "--no-commit", "feature")
    if merge == "by hand":
        write(repository, "echo something else")
    commit = repository.commit("Merge #7")
    if len(pull_plans(repository)) > 1:
        repository.planned("app")
    announce(repository, head, state="closed", merged=True, merge_commit_sha=commit)
    assert repository.announce(commit).is_success

    def merged() -> dict[str, object] | None:
        newest = repository.plans("app")[0]
        return newest if newest["payload"]["options"]["git"].get("commit") == commit else None

    wait_until(merged, timeout_seconds=300, every_seconds=0.2)
    last = repository.planned("app")
    (apply,) = wait_until(lambda: bench.rows("provision_jobs", plan_job_id=last["id"]), timeout_seconds=120)
    if merge == "clean":
        assert bench.wait_job(int(apply["id"]))["status"] == "SUCCEEDED"
        (given,) = bench.rows("approvals", job_id=apply["id"])
        assert given["comment"] == f"Reviewed on #{PULL}, with the same content and changes."
        return
    assert apply["status"] == "AWAITING_APPROVAL", json.dumps(apply)
    assert bench.rows("approvals", job_id=apply["id"]) == []
    noted = [each["reason"] for each in bench.rows("job_events", job_id=apply["id"], event="review_open")]
    words = f"Its content or its changes are not those that were reviewed on #{PULL}: it waits for a new review."
    assert noted == ([words] if merge == "by hand" else []), "a plan that nobody reviewed has no review to differ from"
