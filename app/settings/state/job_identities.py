"""Identities of jobs: who jobs are in a cloud, and what the cloud answered when a runner tried."""

import json
from typing import Any, ClassVar

import reflex as rx

from app.frame.session import takes
from app.live.item_form import Items, Removal
from app.project.models import Filter
from app.project.runtime import runtime
from app.project.store import AGAIN, Changed, OrgStore
from app.settings.view.job_identities import KINDS, JobIdentityView, build_view, check_form

NEW: JobIdentityView = build_view({"id": "", "name": "", "kind": "aws", "path": ""})


class JobIdentitiesState(Items, rx.State):
    EMPTY: ClassVar[JobIdentityView] = NEW
    TOPICS: ClassVar[frozenset[str]] = frozenset({"provision_jobs"})
    REMOVAL = Removal("detach_identity", "p_job_identity", "Identity detached")

    rows: list[JobIdentityView] = []
    chosen: JobIdentityView = NEW
    kind: str = "aws"
    plan_trust: str = ""
    apply_trust: str = ""

    set_kind = takes("kind", of=KINDS)

    async def _show(self, store: OrgStore, changed: Changed) -> None:
        if not _concerns(store, changed):
            return
        rows = await self._org_rows("job_identities", order="path,name", limit=500)
        tests, newest = Filter("type", "eq", "OUTPUT"), {"order": "id", "is_descending": True, "limit": 100}
        columns = "id,status,module_path,result,error,is_test:payload->options->test_identities"
        jobs = await self._org_rows("provision_jobs", tests, columns=columns, **newest)
        self._assign("rows", [build_view(row, [job for job in jobs if job["is_test"]]) for row in rows])

    def _fill(self, chosen: Any, *, is_new: bool) -> None:
        super()._fill(chosen, is_new=is_new)
        self.kind = chosen["kind"]
        self.plan_trust = self.apply_trust = ""

    @rx.event
    async def edit(self, key: str) -> None:
        """Open the form of an identity, with what its cloud has to trust."""
        found = self._find(key)
        if found is not None:
            self._fill(found, is_new=False)
            await self._fill_trust(key)

    async def _fill_trust(self, key: str) -> None:
        args = {"p_job_identity": key, "p_issuer": await runtime().authorized.client.issuer()}
        policies = await self._rpc("identity_trust_policies", args)
        self.plan_trust, self.apply_trust = (json.dumps(policies[phase], indent=2) for phase in ("plan", "apply"))

    async def _module_at(self, operator: str, path: str) -> str:
        found = await self._org_rows("modules", Filter("path", operator, path), columns="id", order="path", limit=1)
        return str(found[0]["id"]) if found else ""

    @rx.event
    async def save(self, form: dict[str, Any]) -> rx.event.EventSpec | None:
        fixed = {} if self.is_new else {"name": self.chosen["name"]}
        checked = check_form({**form, **fixed}, self.kind)
        if self._is_refused(checked):
            return None
        path = str(form.get("path") or "").strip("/ ") if self.is_new else self.chosen["path"]
        made = await self._rpc(
            "attach_identity", {"p_org": await self._org_id(), "p_path": path, "p_spec": checked.spec}
        )
        await self._again()
        if self.is_new:
            # The cloud must trust it: show what to enter there.
            self._fill(build_view(made), is_new=False)
            await self._fill_trust(made["id"])
            return rx.toast.success("Attached", description="Now let the cloud trust it.")
        self.is_open = False
        return rx.toast.success("Saved")

    @rx.event
    async def test(self, key: str) -> rx.event.EventSpec | None:
        """Exchange the tokens of a module on a runner; the table shows the cloud's answer."""
        found = self._find(key)
        if found is None:
            return None
        org, path = await self._org_id(), found["path"]
        below = f"{path}/%".lstrip("/")
        module = await self._module_at("eq", path) or await self._module_at("like", below)
        if not module:
            return rx.toast.error("There is no module to test it with", description=f"Create one below {path}.")
        args = {"p_org": org, "p_type": "OUTPUT", "p_module": module, "p_options": {"test_identities": True}}
        job = await self._rpc("enqueue_job", args)
        await self._again()
        text = f"Job #{job['number']} exchanges the plan's token."
        return rx.toast.info(f"Testing {found['name']}", description=text)


def _concerns(store: OrgStore, changed: Changed) -> bool:
    """Of the many jobs that change, only tests concern this page."""
    if changed.touches({AGAIN}):
        return True
    jobs = (store.row("provision_jobs", key) for key in changed.ids("provision_jobs"))
    return any(job is not None and job.get("type") == "OUTPUT" for job in jobs)
