"""A repository that an organisation follows, with a module for each of two folders, and a runner that reads it."""

from pathlib import Path
from typing import Any

from tests.integration.worker_bench import Bench
from tests.support.waiting import wait_until
from tests.unit.worker.steps.git_places import git

SECRET = "a secret of the test"
CODE = 'resource "terraform_data" "x" { input = "%s" }\noutput "x" { value = terraform_data.x.output }\n'


class Followed:
    """A working copy, the connection of its repository, and what became of events."""

    provider = "gitea"

    def __init__(self, bench: Bench, folder: Path, url: str) -> None:
        """Commit the first content and connect; nothing polls automatically."""
        self.bench, self.folder, self.url = bench, folder, url
        self.commit(app="first", db="first")
        self.publish()
        self.modules = {name: self._module(name) for name in ("app", "db")}
        sealed = self._seal({"org": bench.org, "channel": "webhook", "secret": SECRET})
        spec = {"provider": self.provider, "url": url, "webhook_secret": sealed["secret"], "poll_seconds": 0}
        self.connection = str(bench.rpc("connect_repository", p_org=bench.org, p_spec=spec)["id"])
        self.webhook = f"{bench.project.url}/functions/v1/git/{self.connection}"

    def _module(self, name: str) -> str:
        return self.bench.module(source_kind="git", source={"url": self.url, "ref": "main", "subfolder": name})

    def _seal(self, body: dict[str, Any]) -> dict[str, Any]:
        headers = {"authorization": f"Bearer {self.bench.token}"}
        url = f"{self.bench.project.url}/functions/v1/notify"
        answer: dict[str, Any] = self.bench.http.post(url, json=body, headers=headers).raise_for_status().json()
        return answer

    def publish(self, *_: str) -> None:
        """Bring what is committed to the server, where it is not there already."""

    def commit(self, message: str = "change", **contents: str) -> str:
        """Commit other content for modules; returns the commit."""
        for name, content in contents.items():
            (self.folder / name).mkdir(exist_ok=True)
            (self.folder / name / "main.tf").write_text(CODE % content)
        git(self.folder, "add", "-A")
        git(self.folder, "commit", "-q", "--allow-empty", "-m", message)
        return self.head()

    def head(self) -> str:
        """The commit that is checked out."""
        return git(self.folder, "rev-parse", "HEAD")

    def deliveries(self) -> list[dict[str, Any]]:
        """All of them, the newest first."""
        rows: list[dict[str, Any]] = self.bench.rpc(
            "list_git_deliveries", p_org=self.bench.org, p_connection=self.connection
        )
        return rows

    def decided(self, **wanted: Any) -> dict[str, Any]:
        """The newest delivery with these fields, once it has a verdict."""

        def found() -> dict[str, Any] | None:
            rows = [row for row in self.deliveries() if all(row[name] == value for name, value in wanted.items())]
            return rows[0] if rows and rows[0]["verdict"] != "PENDING" else None

        return wait_until(found, timeout_seconds=300, every_seconds=0.2)

    def poll(self) -> None:
        """Read the repository to the end."""
        job = self.bench.rpc("poll_repository", p_connection=self.connection)
        row = self.bench.wait_job(int(job["id"]))
        assert row["status"] == "SUCCEEDED", self.bench.log_of(row["id"])

    def state(self) -> dict[str, Any]:
        """The connection as commands show it."""
        rows = self.bench.rpc("list_git_connections", p_org=self.bench.org)
        (found,) = [row for row in rows if row["id"] == self.connection]
        return dict(found)

    def plans(self, name: str) -> list[dict[str, Any]]:
        """The plans of a module, the newest first."""
        return self.bench.rows("provision_jobs", module_id=self.modules[name], type="PLAN", order="id.desc")

    def planned(self, name: str) -> dict[str, Any]:
        """The newest plan of a module, finished well; the sweep places it where its state was in use."""
        newest, *_ = wait_until(lambda: self.plans(name), timeout_seconds=300, every_seconds=0.2)
        row = self.bench.wait_job(int(newest["id"]))
        assert row["status"] == "SUCCEEDED", self.bench.log_of(row["id"])
        return row
