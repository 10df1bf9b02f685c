"""The whole way with a real provider: Gitea's own webhooks, pull requests, merges and forced pushes."""

import uuid
from pathlib import Path

import pytest

from tests.integration.git_bench import SECRET, Followed
from tests.integration.worker_bench import Bench
from tests.support.real_gitea import RealGitea, real_gitea
from tests.support.waiting import wait_until
from tests.unit.worker.steps.git_places import git

__all__ = ["real_gitea"]


class Hosted(Followed):
    """A repository at Gitea, with a webhook that Gitea itself sends."""

    def __init__(self, bench: Bench, gitea: RealGitea, folder: Path) -> None:
        self.gitea = gitea
        name = f"edge-{uuid.uuid4().hex[:8]}"
        gitea.call("POST", "user/repos", name=name, default_branch="main", private=False)
        self.name = f"{gitea.user}/{name}"
        folder.mkdir()
        git(folder, "init", "-q", "-b", "main")
        git(folder, "remote", "add", "origin", gitea.push_url(self.name))
        super().__init__(bench, folder, f"{gitea.url}/{self.name}.git")
        self.hook = self.add_hook(SECRET)

    def add_hook(self, secret: str) -> str:
        config = {"url": self.webhook, "content_type": "json", "secret": secret}
        whole = {"type": "gitea", "active": True, "config": config}
        events = ["push", "pull_request", "pull_request_sync", "pull_request_comment"]
        made = self.gitea.call("POST", f"repos/{self.name}/hooks", events=events, **whole)
        return f"repos/{self.name}/hooks/{made['id']}"

    def publish(self, *options: str) -> None:
        git(self.folder, "push", "-q", *options, "origin", "HEAD")

    def open_pull(self, branch: str) -> int:
        made = self.gitea.call("POST", f"repos/{self.name}/pulls", head=branch, base="main", title="A change")
        return int(made["number"])


@pytest.fixture
def hosted(served: Bench, real_gitea: RealGitea, tmp_path: Path) -> Hosted:
    made = Hosted(served, real_gitea, tmp_path / "copy")
    made.poll()
    return made


def test_a_push_plans_that_commit(hosted: Hosted) -> None:
    commit = hosted.commit(app="second")
    hosted.publish()
    row = hosted.decided(after_commit=commit)
    assert (row["verdict"], row["after_commit"], row["sender"]) == ("PLANNED", commit, hosted.gitea.user), row
    assert hosted.planned("app")["result"]["commit"] == commit
    assert hosted.plans("db") == []


def test_a_pull_request_is_planned_and_after_its_merge_the_branch_is(hosted: Hosted) -> None:
    git(hosted.folder, "checkout", "-q", "-b", "feature")
    hosted.commit(app="feature")
    hosted.publish()
    number = hosted.open_pull("feature")
    assert hosted.decided(pull_request=number)["verdict"] == "PLANNED"
    first = hosted.planned("app")
    assert first["payload"]["options"]["git"]["pull_request"] == number
    head = hosted.commit(app="better")
    hosted.publish()
    wait_until(lambda: len(hosted.plans("app")) == 2, timeout_seconds=300)
    assert hosted.planned("app")["result"]["commit"] == head
    hosted.gitea.call("POST", f"repos/{hosted.name}/pulls/{number}/merge", Do="merge")
    wait_until(lambda: len(hosted.plans("app")) == 3, timeout_seconds=300)
    merged = hosted.planned("app")
    assert "pull_request" not in merged["payload"]["options"]["git"]
    assert merged["result"]["commit"] not in {head, first["result"]["commit"]}
    assert len(hosted.bench.rows("provision_jobs", plan_job_id=merged["id"])) == 1


def test_a_wrong_secret_is_refused_and_the_poll_finds_the_push(hosted: Hosted) -> None:
    hosted.gitea.call("DELETE", hosted.hook)
    hosted.add_hook("another secret")
    commit = hosted.commit(app="second")
    hosted.publish()
    wait_until(lambda: hosted.state()["refused_at"], timeout_seconds=300)
    assert commit not in {row["after_commit"] for row in hosted.deliveries()}
    hosted.poll()
    assert hosted.decided(event="poll")["verdict"] == "PLANNED"
    assert hosted.planned("app")["result"]["commit"] == commit


def test_a_forced_push_plans_only_modules_whose_content_differs(hosted: Hosted) -> None:
    first = hosted.head()
    hosted.commit(app="second", db="second")
    hosted.publish()
    wait_until(lambda: hosted.plans("db"), timeout_seconds=300)
    git(hosted.folder, "reset", "-q", "--hard", first)
    commit = hosted.commit(app="second", db="third")
    hosted.publish("--force")
    row = hosted.decided(after_commit=commit)
    assert row["verdict"] == "PLANNED"
    verdicts = {each["path"]: each["verdict"] for each in row["modules"]}
    assert sorted(verdicts.values()) == ["NOTHING", "PLANNED"]
    assert hosted.planned("db")["result"]["commit"] == commit
    assert len(hosted.plans("app")) == 1


def test_a_comment_of_a_linked_login_is_a_command(hosted: Hosted) -> None:
    bench = hosted.bench
    git(hosted.folder, "checkout", "-q", "-b", "feature")
    hosted.commit(app="feature")
    hosted.publish()
    number = hosted.open_pull("feature")
    assert hosted.decided(pull_request=number)["verdict"] == "PLANNED"
    first = hosted.planned("app")

    def comment(text: str) -> str:
        said = hosted.gitea.call("POST", f"repos/{hosted.name}/issues/{number}/comments", body=text)
        wait_until(lambda: len(hosted.deliveries()) > known, timeout_seconds=300)
        assert said["id"]
        return str(hosted.decided(event="comment")["verdict"])

    known = len(hosted.deliveries())
    assert comment("/runyard plan") == "REFUSED"
    host = hosted.url.split("/")[2]
    (member,) = bench.rows("memberships", org_id=bench.org)
    link = {"p_host": host, "p_login": hosted.gitea.user}
    bench.rpc("link_git_login", p_org=bench.org, p_user=member["user_id"], **link)
    known = len(hosted.deliveries())
    assert comment("/runyard plan") == "DONE"
    wait_until(lambda: len(hosted.plans("app")) == 2, timeout_seconds=300)
    assert hosted.planned("app")["id"] != first["id"]
    known = len(hosted.deliveries())
    assert comment("/runyard confirm") == "DONE"
    assert len(bench.rows("approvals", job_id=hosted.plans("app")[0]["id"])) == 1
    bench.rpc("unlink_git_login", p_org=bench.org, **link)
