"""From a push to a plan: a signed delivery, a runner that reads the repository, and the plan of that commit."""

import uuid
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.integration.worker_bench import Bench
from tests.support import webhooks
from tests.support.waiting import wait_until
from tests.unit.worker.steps.git_places import git

SECRET = "a secret of the test"
CODE = 'resource "terraform_data" "x" { input = "%s" }\noutput "x" { value = terraform_data.x.output }\n'


class Repository:
    """A repository on this machine that an organisation follows, with a module for each of two folders."""

    def __init__(self, bench: Bench) -> None:
        self.bench = bench
        self.folder = bench.folder / f"origin-{uuid.uuid4().hex[:6]}"
        self.folder.mkdir()
        git(self.folder, "init", "-q", "-b", "main")
        self.commit(app="first", db="first")
        self.modules = {name: self._module(name) for name in ("app", "db")}
        sealed = self._post("notify", {"org": bench.org, "channel": "webhook", "secret": SECRET})
        spec = {"provider": "gitea", "url": str(self.folder), "webhook_secret": sealed["secret"], "poll_seconds": 0}
        self.connection = bench.rpc("connect_repository", p_org=bench.org, p_spec=spec)["id"]

    def _module(self, name: str) -> str:
        return self.bench.module(source_kind="git", source={"url": str(self.folder), "ref": "main", "subfolder": name})

    def _post(self, function: str, body: dict[str, Any]) -> dict[str, Any]:
        headers = {"authorization": f"Bearer {self.bench.token}"}
        url = f"{self.bench.project.url}/functions/v1/{function}"
        answer: dict[str, Any] = self.bench.http.post(url, json=body, headers=headers).raise_for_status().json()
        return answer

    def commit(self, message: str = "change", **contents: str) -> str:
        for name, content in contents.items():
            (self.folder / name).mkdir(exist_ok=True)
            (self.folder / name / "main.tf").write_text(CODE % content)
        git(self.folder, "add", "-A")
        git(self.folder, "commit", "-q", "--allow-empty", "-m", message)
        return git(self.folder, "rev-parse", "HEAD")

    def announce(self, commit: str, secret: str = SECRET, **more: str) -> httpx.Response:
        body = webhooks.push_body("main", commit)
        url = f"{self.bench.project.url}/functions/v1/git/{self.connection}"
        return self.bench.http.post(url, content=body, headers=webhooks.gitea(secret, body, **more))

    def decided(self) -> dict[str, Any]:
        """The newest delivery, once it has a verdict."""

        def found() -> dict[str, Any] | None:
            rows = self.bench.rpc("list_git_deliveries", p_org=self.bench.org, p_connection=self.connection)
            return rows[0] if rows and rows[0]["verdict"] != "PENDING" else None

        return wait_until(found, timeout_seconds=300, every_seconds=0.1)

    def poll(self) -> dict[str, Any]:
        job = self.bench.rpc("poll_repository", p_connection=self.connection)
        row = self.bench.wait_job(int(job["id"]))
        assert row["status"] == "SUCCEEDED", self.bench.log_of(row["id"])
        return row

    def plans(self, name: str) -> list[dict[str, Any]]:
        return self.bench.rows("provision_jobs", module_id=self.modules[name], type="PLAN", order="id.desc")


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
    (plan,) = repository.plans("app")
    assert repository.plans("db") == []
    done = bench.wait_job(int(plan["id"]))
    assert (done["status"], done["result"]["commit"]) == ("SUCCEEDED", commit), bench.log_of(done["id"])
    assert done["message"] == f"main@{commit[:7]}: Raise the limit"
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
    (plan,) = repository.plans("app")
    again = repository.announce(commit, delivery="one")
    assert (again.status_code, again.json()["verdict"]) == (200, "PLANNED")
    assert repository.announce(commit, "wrong").status_code == 401
    git(repository.folder, "commit", "-q", "--amend", "-m", "rewritten")
    rewritten = git(repository.folder, "rev-parse", "HEAD")
    assert rewritten != commit
    assert repository.announce(rewritten, delivery="two").status_code == 202
    row = wait_until(lambda: (r := repository.decided()) and r["delivery_id"] == "two" and r, timeout_seconds=300)
    assert row["verdict"] == "NOTHING"
    reasons = {each["path"].rpartition("/")[2]: each["reason"] for each in row["modules"]}
    assert f"Same content as {commit[:7]}, planned in job {plan['id']}." in reasons.values()
    assert [each["id"] for each in repository.plans("app")] == [plan["id"]]


def test_the_poll_finds_a_push_that_nobody_announced_and_a_forced_one(repository: Repository) -> None:
    before = git(repository.folder, "rev-parse", "HEAD")
    commit = repository.commit(app="second", db="second")
    repository.poll()
    row = repository.decided()
    assert (row["event"], row["verdict"]) == ("poll", "PLANNED")
    assert {repository.plans(name)[0]["payload"]["module"]["source"]["commit"] for name in ("app", "db")} == {commit}
    git(repository.folder, "reset", "-q", "--hard", before)
    forced = repository.commit(db="third")
    repository.poll()
    assert [each["payload"]["module"]["source"]["commit"] for each in repository.plans("db")] == [forced, commit]


def test_a_commit_that_left_its_branch_is_still_what_is_planned(repository: Repository) -> None:
    """The plan of a push is the plan of that commit, also when the branch is somewhere else by then."""
    bench = repository.bench
    gate = bench.folder / f"gate-{uuid.uuid4().hex[:6]}"
    bench.rpc(
        "update_module", p_module=repository.modules["app"],
        p_spec={"hooks": {"before_init": f"while [ ! -e {gate} ]; do sleep 0.1; done"}},
    )  # fmt: skip
    commit = repository.commit(app="second")
    repository.poll()
    (plan,) = repository.plans("app")
    repository.commit(app="third")
    Path(gate).touch()
    assert bench.wait_job(int(plan["id"]))["result"]["commit"] == commit


def test_a_repository_that_cannot_be_read_says_why(repository: Repository) -> None:
    git(repository.folder, "checkout", "-q", "--orphan", "gone")
    repository.folder.rename(repository.folder.with_suffix(".moved"))
    assert repository.announce("a" * 40).status_code == 202
    row = repository.decided()
    assert row["verdict"] == "FAILED"
    rows = repository.bench.rpc("list_git_connections", p_org=repository.bench.org)
    (connection,) = [each for each in rows if each["id"] == repository.connection]
    assert connection["error"]
