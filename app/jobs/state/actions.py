"""The actions on a job: a question names what an action leaves behind, then the database carries it out."""

from typing import Any

import reflex as rx

from app.frame.session import AppState, takes
from app.jobs.state.job import JobState
from app.jobs.view.events import CANCEL_REASON
from app.jobs.view.rows import JobFilter

CANCEL_SAID = {
    "AFTER_STEP": ("Stopping after this step", "What this step changes stays changed."),
    "GRACEFUL": ("Stopping…", "One interrupt was sent. The state is saved."),
    "KILL": ("Killing…", "Check what it left behind before the next apply."),
}
STARTS_SOON = "It starts as soon as a runner is free."
ASKED_FIRST = ("KILL", "retry", "mark_failed", "release_lock", "discard")


class JobActionState(AppState, rx.State):
    asking: str = ""
    typed: str = ""
    comment: str = ""
    is_late_open: bool = False

    set_typed = takes("typed", most=500)
    set_comment = takes("comment", most=2000)
    show_late = takes("is_late_open", bool)

    async def _job(self) -> JobState:
        return await self.get_state(JobState)

    async def _do(
        self, name: str, args: dict[str, Any], title: str, text: str = "", *, is_grave: bool = False
    ) -> list[Any]:
        page = await self._job()
        if not page.is_found:
            return []
        await self._rpc(name, {"p_job": int(page.view["id"]), **args})
        await page._renew()
        self.asking = self.typed = ""
        say = rx.toast.error if is_grave else rx.toast.success
        return [say(title, description=text)]

    @rx.event
    def ask(self, what: str) -> None:
        if what in ASKED_FIRST:
            self.asking, self.typed = what, ""

    @rx.event
    def close(self) -> None:
        """Close the confirmation and change nothing; also called when a page opens, because page states outlive a reload."""
        self.asking = self.typed = ""
        self.is_late_open = False

    @rx.event
    async def override(self, form: dict[str, Any]) -> list[Any]:
        args = {"p_policy": str(form.get("policy") or ""), "p_reason": str(form.get("reason") or "")[:600]}
        return await self._do("override_check", args, "Overridden", "The reason is kept with the job.")

    @rx.event
    async def attach_tested(self, form: dict[str, Any]) -> list[Any]:
        page = await self._job()
        given = {key: str(form.get(key) or "").strip() for key in ("name", "level")}
        args = {"p_path": page.policy_test.path, "p_spec": {**given, "test": int(page.view["id"])}}
        await self._rpc("attach_policy", {"p_org": await self._org_id(), **args})
        return [rx.toast.success("Attached", description="Plans that are requested from now on are checked with it.")]

    @rx.event
    async def cancel(self, kind: str) -> list[Any]:
        if kind not in CANCEL_SAID:
            return []
        page = await self._job()
        if page.view.get("status") in ("QUEUED", "AWAITING_APPROVAL"):
            said = ("Cancelled", "No runner had it, so nothing was changed.")
        else:
            said = CANCEL_SAID[kind]
        args = {"p_kind": kind, "p_reason": CANCEL_REASON[kind]}
        return await self._do("cancel_job", args, *said, is_grave=kind == "KILL")

    @rx.event
    async def retry(self) -> list[Any]:
        page = await self._job()
        if not page.is_found:
            return []
        args = {"p_job": int(page.view["id"]), "p_reason": "Run again on the job's page"}
        job = await self._rpc("retry_job", args)
        return [self._go(f"/dashboard/jobs/{int(job['number'])}")]

    @rx.event
    async def next_needed(self) -> rx.event.EventSpec:
        """Lead to the oldest other job that waits for the viewer."""
        org, me = await self._org_id(), (await self._who()).user_id
        args = {f"p_{name}": value for name, value in JobFilter(view="needs").arguments(me).items()}
        found = (await self._rpc("list_jobs", {"p_org": org, "p_limit": 200, **args}))["rows"]
        here = (await self._job()).view["number"]
        numbers = sorted(int(row["number"]) for row in found if row["number"] != here)
        # In their order from here on, and from the first again.
        after = [number for number in numbers if number > int(here or 0)]
        said = rx.toast.info("Nothing else needs you")
        return self._go(f"/dashboard/jobs/{(after or numbers)[0]}") if numbers else said

    @rx.event
    async def apply_plan(self) -> list[Any]:
        """Apply exactly what this plan has shown."""
        page = await self._job()
        if not page.is_found or not page.view["can_apply"]:
            return []
        args = {
            "p_org": await self._org_id(),
            "p_type": "APPLY",
            "p_module": page.view["module_id"],
            "p_options": {"plan_job_id": int(page.view["id"])},
        }
        job = await self._rpc("enqueue_job", args)
        # The apply has the plan's number: this page shows it.
        await page._renew()
        return [rx.toast.success("Applying", description=STARTS_SOON)] if job["status"] == "QUEUED" else []

    @rx.event
    async def decide(self, decision: str) -> list[Any]:
        """Approve or reject the job; "override" is an owner's approval of a job of their own, with the comment as the reason."""
        if decision not in ("approve", "reject", "override"):
            return []
        page = await self._job()
        said = (
            ("Discarded", "Nothing was changed. The plan is never applied.")
            if decision == "reject"
            else ("Confirmed", STARTS_SOON)
            if page.approvals_received + 1 >= page.approvals_required
            else ("Approved", "It runs once all approvals are in.")
        )
        args = {"p_decision": decision, "p_comment": self.comment.strip()}
        if decision == "override":
            args = {"p_decision": "approve", "p_override_reason": self.comment.strip()}
        done = await self._do("approve_job", args, *said)
        self.comment = ""
        return [*done, rx.set_value("approval-comment", "")]

    @rx.event
    async def say(self, form: dict[str, Any]) -> list[Any]:
        page, body = await self._job(), str(form.get("body") or "").strip()
        if not page.is_found or not body:
            return []
        await self._rpc("comment_on_job", {"p_job": int(page.view["id"]), "p_body": body})
        await page._renew()
        return []

    @rx.event
    async def check_first(self) -> list[Any]:
        """Look at what a lost job left behind, with a plan that changes nothing; shows that plan."""
        page = await self._job()
        if not page.is_found:
            return []
        job_id, number = int(page.view["id"]), int(page.view["number"])
        job = await self._rpc("resolve_attention", {"p_job": job_id, "p_action": "refresh_plan"})
        text = f"It changes nothing. When you have seen it, go back to #{number} and choose."
        return [
            self._go(f"/dashboard/jobs/{int(job['number'])}"),
            rx.toast.success("A check plan is queued", description=text),
        ]

    @rx.event
    async def check_killed(self) -> list[Any]:
        """Look at what a killed job left behind: a plan that only compares."""
        page = await self._job()
        if not page.is_found or not page.view["was_killed"]:
            return []
        args = {
            "p_org": await self._org_id(),
            "p_type": "PLAN",
            "p_module": page.view["module_id"],
            "p_options": {"refresh_only": True},
        }
        job = await self._rpc("enqueue_job", args)
        return [self._go(f"/dashboard/jobs/{int(job['number'])}")]

    @rx.event
    async def resolve(self, way: str) -> list[Any]:
        said = {
            "retry": ("It runs again", "The next attempt takes over the state lock."),
            "mark_failed": ("Marked as failed", "The state is unlocked, the log stays."),
            "release_lock": ("The state is unlocked", "The job still waits for your choice."),
        }
        if way not in said:
            return []
        # The id of the lock that the page shows is the proof: a lock that changed since then is not released.
        shown = (await self._job()).state.lock_id
        proof = self.typed.strip() if way == "release_lock" else shown
        return await self._do("resolve_attention", {"p_action": way, "p_proof": proof or None}, *said[way])
