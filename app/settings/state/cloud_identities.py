"""Cloud identities: where cloud-hosted runners are deployed."""

from typing import Any, ClassVar

import reflex as rx

from app.live.item_form import Items, Removal
from app.project.models import Filter
from app.project.store import AGAIN, Changed, OrgStore
from app.settings.view.cloud_identities import IdentityView, build_view, check_form, trust_policy

NO_IDENTITY: IdentityView = build_view({"id": "", "name": ""}, ())


class IdentitiesState(Items, rx.State):
    EMPTY: ClassVar[IdentityView] = NO_IDENTITY
    TOPICS: ClassVar[frozenset[str]] = frozenset({"cloud_identities", "workers", "provision_jobs"})
    REMOVAL = Removal("remove_cloud_identity", "p_identity", "{} is removed", "The role in your account still exists.")

    rows: list[IdentityView] = []
    chosen: IdentityView = NO_IDENTITY
    policy: str = ""

    async def _show(self, store: OrgStore, changed: Changed) -> None:
        if not _concerns(store, changed):
            return
        rows = await self._org_rows("cloud_identities", order="name", limit=500)
        deployed, columns = Filter("cloud_identity_id", "not.is", "null"), "id,name,cloud_identity_id"
        workers = await self._org_rows("workers", deployed, columns=columns, order="id")
        tests, newest = (
            Filter("target_identity_id", "not.is", "null"),
            {"order": "id", "is_descending": True, "limit": 100},
        )
        columns = "id,number,status,target_identity_id"
        jobs = await self._org_rows("provision_jobs", tests, columns=columns, **newest)
        self._assign("rows", [build_view(row, workers, jobs) for row in rows])

    def _fill(self, chosen: Any, *, is_new: bool) -> None:
        super()._fill(chosen, is_new=is_new)
        self.policy = "" if is_new else trust_policy(chosen["external_id"])

    @rx.event
    async def save(self, form: dict[str, Any]) -> rx.event.EventSpec | None:
        checked = check_form(form)
        if self._is_refused(checked):
            return None
        row = await self._save(checked.spec)
        await self._again()
        if self.is_new:
            # The role must trust the external id, which the database has just made: show what to paste.
            self._fill(build_view(row, ()), is_new=False)
            return rx.toast.success("Added", description="Now add the trust policy to the role.")
        self.is_open = False
        return rx.toast.success("Saved")

    async def _save(self, spec: dict[str, Any]) -> Any:
        if self.is_new:
            return await self._rpc("create_cloud_identity", {"p_org": await self._org_id(), "p_spec": spec})
        return await self._rpc("update_cloud_identity", {"p_identity": self.chosen["id"], "p_spec": spec})

    @rx.event
    async def test(self, key: str) -> rx.event.EventSpec | None:
        if self._find(key) is None:
            return None
        answer = await self._rpc("verify_cloud_identity", {"p_identity": key})
        await self._again()
        text = f"Job #{answer['job']['id']} assumes the role in each region."
        return rx.toast.info(f"Testing {answer['name']}", description=text)


def _concerns(store: OrgStore, changed: Changed) -> bool:
    """Return whether a change is about identities: of the many jobs that change, only tests are."""
    if changed.touches({"cloud_identities", "workers", AGAIN}):
        return True
    jobs = (store.row("provision_jobs", key) for key in changed.ids("provision_jobs"))
    return any(job is not None and job.get("target_identity_id") for job in jobs)
