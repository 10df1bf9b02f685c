"""A drill's jobs, asked for and read through the API as the person who wanted to see something break."""

from collections import defaultdict
from typing import Any

from cli.client.api import Api
from cli.errors import CommandError, Refused
from cli.jobs.follow import log_days
from cli.launcher.demo.content import ORGANISATION
from cli.launcher.demo.prepare import OWN
from cli.launcher.faults.content import APPLY, GROUP, LINE, PLAN, PLAN_LINES, specs
from stack.settings import command

ENDED = ("SUCCEEDED", "FAILED", "CANCELLED", "NEEDS_ATTENTION")


class Work:
    """The actions of one person in the demo organisation."""

    def __init__(self, person: Api) -> None:
        self._person = person
        self._org = ""

    def check_owner(self) -> None:
        """Refuse anyone who is not an owner of the demo organisation; the database says who is."""
        mine = self._person.call("my_organizations") or []
        demo = next((one for one in mine if one["slug"] == ORGANISATION[1]), None)
        if demo is None or demo["role"] != "owner":
            raise Refused(
                "Only an owner of the demo organisation may break something.",
                "Sign in as the account that the start names.",
            )
        self._org = str(demo["id"])

    def ask(self, name: str, lines: int) -> tuple[int, int]:
        """Ask for a job on the runner that is going to be broken; its id and its number."""
        module = self._module(name)
        options: dict[str, Any] = {"pinned_worker_id": self._runner(), "max_attempts": 5}
        if name == APPLY:
            options["variables"] = {"lines": lines}
        kind = "APPLY" if name == APPLY else "PLAN"
        job = self._person.call("enqueue_job", org=self._org, type=kind, module=module, options=options)
        return int(job["id"]), int(job["number"])

    def job(self, number: int) -> dict[str, Any]:
        """A job as it is now."""
        return self._person.rows("provision_jobs", select="status,attempt,module_id,payload,error", id=f"eq.{number}")[
            0
        ]

    def events(self, number: int) -> list[dict[str, Any]]:
        """Read the job's events."""
        return self._person.rows("job_events", select="id,event,reason", job_id=f"eq.{number}", order="id")

    def lines(self, number: int) -> dict[int, set[int]]:
        """The numbers of the lines in its log, by attempt."""
        bodies: dict[int, str] = defaultdict(str)
        (job,) = self._person.rows("provision_jobs", select="attempt,created_at,log_day", id=f"eq.{number}")
        days = {"and": log_days(job, attempt=0)} if job["log_day"] else {}
        for row in self._person.all_rows(
            "job_log_chunks", select="attempt,body", job_id=f"eq.{number}", order="attempt,seq", **days
        ):
            bodies[int(row["attempt"])] += row["body"]
        return {attempt: {int(found[1]) for found in LINE.finditer(body)} for attempt, body in bodies.items()}

    def decide(self, number: int) -> None:
        """Decide as a person would about an apply whose runner was lost: mark it as failed, and release its lock."""
        held = self._person.call("state_info", module=self.job(number)["module_id"])["lock"]
        self._person.call("resolve_attention", job=number, action="mark_failed", proof=held["id"] if held else None)

    def cancel(self, number: int) -> None:
        """Leave nothing behind that waits; what has ended has ended."""
        try:
            self._person.call("cancel_job", job=number, kind="GRACEFUL", reason="The drill is over")
        except CommandError:
            return

    def _runner(self) -> str:
        found = self._person.rows(
            "workers", select="id", org_id=f"eq.{self._org}", name=f"eq.{OWN}", removed_at="is.null"
        )
        if not found:
            raise Refused(
                f"The demo's runner {OWN} was removed.",
                f"`{command('reset')}` and `{command('up')}` recreate everything.",
            )
        return str(found[0]["id"])

    def _module(self, name: str) -> str:
        path = f"eq.{GROUP}/{name}"
        found = self._person.rows("modules", select="id", org_id=f"eq.{self._org}", path=path, deleted_at="is.null")
        if found:
            return str(found[0]["id"])
        self._person.call("upsert_group", org=self._org, path=GROUP, description="What “Break something” runs")
        made = self._person.call("create_module", org=self._org, group_path=GROUP, name=name, spec=specs()[name])
        return str(made["id"])


def lines_lost(seen: dict[int, set[int]], name: str, lines: int, *, has_succeeded: bool) -> int:
    """Count gaps: a later line arrived and this one did not; of a job that succeeded every line has to be there."""
    last = max(seen, default=0)
    expected = PLAN_LINES if name == PLAN else lines
    return sum(
        (expected if has_succeeded and attempt == last else max(numbers, default=0)) - len(numbers)
        for attempt, numbers in seen.items()
    )
