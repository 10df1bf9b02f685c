"""From a push to a plan: a signed delivery, a runner that reads the repository, and the plan of that commit."""

import uuid
from typing import Any

import httpx
import pytest

from tests.integration.git_bench import SECRET, Followed
from tests.integration.worker_bench import Bench, until
from tests.support import webhooks
from tests.support.waiting import wait_until
from tests.unit.worker.steps.git_places import git


class Repository(Followed):
    """A repository on this machine; the test sends what a provider would."""

    def __init__(self, bench: Bench) -> None:
        folder = bench.folder / f"origin-{uuid.uuid4().hex[:6]}"
        folder.mkdir()
        git(folder, "init", "-q", "-b", "main")
        super().__init__(bench, folder, str(folder))

    def announce(self, commit: str, secret: str = SECRET, **more: str) -> httpx.Response:
        return self._send(webhooks.push_body("main", commit), secret, **more)

    def announce_pull(self, number: int, head: str) -> httpx.Response:
        git(self.folder, "update-ref", f"refs/pull/{number}/head", head)
        return self._send(webhooks.pull_body(number, head), SECRET, event="pull_request")

    def _send(self, body: bytes, secret: str, **more: str) -> httpx.Response:
        sign = webhooks.github if self.provider == "github" else webhooks.gitea
        return self.bench.http.post(self.webhook, content=body, headers=sign(secret, body, **more))


class AtGitHub(Repository):
    """A repository whose events are GitHub's, with a merge queue."""

    provider = "github"

    def queue(self, number: int, head: str) -> str:
        """Put the merge of a pull request into the queue; returns its commit."""
        base = self.head()
        git(self.folder, "checkout", "-q", "-B", f"gh-readonly-queue/main/pr-{number}-{base}")
        git(self.folder, "merge", "-q", "--no-ff", "-m", f"Merge #{number}", head)
        entry = self.head()
        git(self.folder, "checkout", "-q", "main")
        self.say_queue(number, base, entry)
        return entry

    def say_queue(self, number: int, base: str, entry: str, **more: str) -> None:
        """Announce an entry, or its end."""
        sent = self._send(webhooks.queue_body(number, base, entry, **more), SECRET, event="merge_group")
        assert sent.status_code == 202, sent.text

    def check(self, commit: str) -> dict[str, Any]:
        """The check of a commit, once it has ended."""

        def ended() -> dict[str, Any] | None:
            change = self.bench.rpc("git_change", p_connection=self.connection, p_commit=commit)
            report: dict[str, Any] = change["report"]
            return report if report["state"] != "pending" else None

        return wait_until(ended, timeout_seconds=300, every_seconds=0.2)


@pytest.fixture
def repository(served: Bench) -> Repository:
    made = Repository(served)
    made.poll()
    assert made.plans("app") == [], "the first reading starts nothing"
    return made


def test_a_push_plans_the_changed_module_and_its_apply_waits(repository: Repository) -> None:
    bench = repository.bench
    commit = repository.commit("Raise the limit", app="second")
    assert repository.announce(commit).status_code == 202
    row = repository.decided()
    assert (row["verdict"], row["sender"]) == ("PLANNED", "somebody")
    assert repository.plans("db") == []
    plan = repository.planned("app")
    assert plan["result"]["commit"] == commit
    assert plan["message"] == f"main@{commit[:7]}: Raise the limit"
    (apply,) = wait_until(lambda: bench.rows("provision_jobs", plan_job_id=plan["id"]), timeout_seconds=120)
    assert apply["status"] == "AWAITING_APPROVAL"
    bench.rpc("approve_job", p_job=apply["id"], p_decision="approve")
    assert bench.wait_job(int(apply["id"]))["status"] == "SUCCEEDED"
    (known,) = bench.rows("module_git", module_id=repository.modules["app"])
    assert (known["applied_commit"], known["watched"]) == (commit, ["app"])
    assert known["applied_fingerprint"] == known["seen_fingerprint"]


def test_a_replay_a_wrong_signature_and_equal_content_start_nothing(repository: Repository) -> None:
    commit = repository.commit(app="second")
    assert repository.announce(commit, delivery="one").status_code == 202
    assert repository.decided()["verdict"] == "PLANNED"
    plan = repository.planned("app")
    again = repository.announce(commit, delivery="one")
    assert (again.status_code, again.json()["verdict"]) == (200, "PLANNED")
    assert repository.announce(commit, "wrong").status_code == 401
    git(repository.folder, "commit", "-q", "--amend", "-m", "rewritten")
    assert repository.head() != commit
    assert repository.announce(repository.head(), delivery="two").status_code == 202
    row = repository.decided(delivery_id="two")
    assert row["verdict"] == "NOTHING"
    reasons = [each["reason"] for each in row["modules"]]
    assert f"Same content as {commit[:7]}, planned in job {plan['number']}." in reasons
    assert [each["id"] for each in repository.plans("app")] == [plan["id"]]


def test_the_poll_finds_a_push_that_nobody_announced_and_a_forced_one(repository: Repository) -> None:
    before = repository.head()
    commit = repository.commit(app="second", db="second")
    repository.poll()
    row = repository.decided()
    assert (row["event"], row["verdict"]) == ("poll", "PLANNED")
    assert {repository.planned(name)["result"]["commit"] for name in ("app", "db")} == {commit}
    git(repository.folder, "reset", "-q", "--hard", before)
    forced = repository.commit(db="third")
    repository.poll()
    wait_until(lambda: len(repository.plans("db")) == 2, timeout_seconds=300)
    assert repository.planned("db")["result"]["commit"] == forced


def test_a_push_plans_its_own_commit_even_if_the_branch_has_moved(repository: Repository) -> None:
    """The plan of a push is the plan of that commit, also when the branch is somewhere else by then."""
    gate = repository.bench.folder / f"gate-{uuid.uuid4().hex[:6]}"
    hooks = {"before_init": until(gate)}
    repository.bench.rpc("update_module", p_module=repository.modules["app"], p_spec={"hooks": hooks})
    commit = repository.commit(app="second")
    repository.poll()
    repository.commit(app="third")
    gate.touch()
    assert repository.planned("app")["result"]["commit"] == commit


def test_a_pull_request_is_planned_as_its_merge_and_cannot_be_applied(repository: Repository) -> None:
    bench = repository.bench
    git(repository.folder, "checkout", "-q", "-b", "feature")
    head = repository.commit(app="feature")
    git(repository.folder, "checkout", "-q", "main")
    repository.commit(db="moved")
    repository.poll()
    assert repository.announce_pull(7, head).status_code == 202
    row = repository.decided(pull_request=7)
    assert row["verdict"] == "PLANNED", row
    plan = repository.planned("app")
    assert plan["result"]["commit"] == head
    assert plan["plan_summary"]["has_changes"] is True
    assert f"Checked out the merge of {head}" in bench.log_of(plan["id"])
    assert bench.rows("provision_jobs", plan_job_id=plan["id"]) == []
    # The base's own change was planned by the push, not by the pull request.
    assert [each["payload"]["options"]["git"].get("pull_request") for each in repository.plans("db")] == [None]


def test_a_conflicting_pull_request_is_not_planned_and_shows_the_conflict(repository: Repository) -> None:
    git(repository.folder, "checkout", "-q", "-b", "feature")
    head = repository.commit(app="feature")
    git(repository.folder, "checkout", "-q", "main")
    repository.commit(app="other")
    repository.announce_pull(8, head)
    row = repository.decided(pull_request=8)
    assert (row["verdict"], row["reason"]) == ("NOTHING", "It conflicts with main. Merge main into it first.")


def test_an_unreadable_repository_shows_an_error(repository: Repository) -> None:
    repository.folder.rename(repository.folder.with_suffix(".moved"))
    assert repository.announce("a" * 40).status_code == 202
    assert repository.decided()["verdict"] == "FAILED"
    assert repository.state()["error"]


@pytest.mark.slow
def test_an_entry_of_the_merge_queue_is_applied_before_it_merges(served: Bench) -> None:
    repository = AtGitHub(served)
    repository.poll()
    module = {"p_module": repository.modules["app"], "p_spec": {"apply": "merge_queue"}}
    served.rpc("set_module_git", **module)
    base = repository.head()
    git(repository.folder, "checkout", "-q", "-b", "feature")
    head = repository.commit(app="feature")
    git(repository.folder, "checkout", "-q", "main")
    repository.announce_pull(7, head)
    plan = repository.planned("app")
    hasty = repository.queue(7, head)
    assert repository.check(hasty)["description"].endswith("its plan on #7 is not approved yet.")
    assert served.rows("provision_jobs", module_id=repository.modules["app"], type="APPLY") == []
    repository.say_queue(7, base, hasty, action="destroyed", reason="dequeued")
    served.rpc("approve_job", p_job=plan["id"], p_decision="approve")
    git(repository.folder, "branch", "-D", f"gh-readonly-queue/main/pr-7-{base}")
    repository.commit(db="meanwhile")
    entry = repository.queue(7, head)
    assert repository.check(entry)["state"] == "success", repository.check(entry)
    (apply,) = served.rows("provision_jobs", module_id=repository.modules["app"], type="APPLY")
    assert (apply["status"], apply["result"]["commit"]) == ("SUCCEEDED", entry)
    git(repository.folder, "merge", "-q", "--ff-only", entry)
    repository.announce(entry, delivery="merged")
    row = repository.decided(delivery_id="merged")
    reasons = {each["path"]: each["reason"] for each in row["modules"]}
    assert f"Same content as {entry[:7]}, which is applied." in reasons.values(), reasons
