"""The half of the add-runner sheet that deploys a cloud-hosted runner, and what both halves ask for."""

from typing import Any

import reflex as rx

from app.frame.session import AppState, takes
from app.runners.view.deployment import SIZES, CloudIdentity, DeployStep, build_steps, read_test
from app.runners.view.form import new_name_problem


class RunnerForm(AppState, mixin=True):
    """The fields of every new runner: its name, and what it may work on."""

    path: str = ""
    name: str = ""
    name_problem: str = ""
    worker_id: str = ""
    worker_name: str = ""

    set_path = takes("path", most=500)

    @rx.event
    def set_name(self, text: str) -> None:
        """Take the name, and say at once what is wrong with it."""
        name = text.strip()[:63]
        # The same name comes twice, when typing pauses and when the field is left: its error stays.
        if name != self.name:
            self.name, self.name_problem = name, new_name_problem(name)

    def _reach(self) -> dict[str, Any]:
        """Name the path that the runner serves; without one it serves all modules."""
        path = self.path.strip("/ ")
        return {"is_assigned_to_all_modules": not path, "assignments": [path] if path else []}

    def _check_name(self) -> None:
        self.name_problem = new_name_problem(self.name) or ("Enter a name." if not self.name else "")


class DeployForm(RunnerForm, mixin=True):
    """Identity, region and size; then the job that deploys, followed step by step."""

    identities: list[CloudIdentity] = []
    identity_id: str = ""
    check: str = ""
    check_words: str = ""
    test_job_id: int = 0
    regions: list[str] = []
    region: str = ""
    size: str = "2 vCPU, 4 GB"
    is_scaled_to_zero: bool = True
    options: dict[str, str] = dict.fromkeys(("task_role_arn", "image", "version", "desired_count"), "")
    job_id: int = 0
    job_number: int = 0
    job_type: str = ""
    job_status: str = ""
    job_error: str = ""
    steps: list[DeployStep] = []

    set_region = takes("region", of="regions")
    set_size = takes("size", of=SIZES)
    set_scaled_to_zero = takes("is_scaled_to_zero", bool)

    def _choose_identity(self, identity_id: str) -> None:
        found = [item for item in self.identities if item["id"] == identity_id]
        if found:
            self.identity_id, self.regions = identity_id, list(found[0]["regions"])
            self.region = self.regions[0] if self.regions else ""
            self.check, self.check_words, self.test_job_id = found[0]["check"], found[0]["check_words"], 0

    @rx.event
    def set_identity(self, identity_id: str) -> None:
        self._choose_identity(identity_id)

    @rx.event
    async def test_identity(self) -> None:
        """Test the chosen identity on a runner; the sheet shows the result."""
        if not self.identity_id or self.check == "TESTING":
            return
        answer = await self._rpc("verify_cloud_identity", {"p_identity": self.identity_id})
        self.test_job_id = int(answer["job"]["id"])
        self._note_test(answer["job"])

    def _note_test(self, job: dict[str, Any]) -> None:
        check, said = read_test(job)
        if (check, said) == (self.check, self.check_words):
            return
        self.check, self.check_words = check, said
        result: dict[str, Any] = {"check": check, "check_words": said}
        self.identities = [
            {**item, **result} if item["id"] == self.identity_id else item  # type: ignore[typeddict-item]
            for item in self.identities
        ]

    @rx.event
    def set_option(self, name: str, text: str) -> None:
        """Set the role that jobs act with, another image or version, or the number of tasks."""
        if name in self.options:
            self.options = {**self.options, name: text.strip()}

    @rx.event
    async def deploy(self) -> None:
        """Queue the job that deploys a cloud-hosted runner, and follow it here."""
        self._check_name()
        if self.name_problem or self.job_id or self.check != "WORKS":
            return
        answer = await self._rpc("deploy_worker", await self._deployment())
        self.worker_id, self.worker_name = str(answer["worker"]["id"]), self.name
        self._follow(answer["job"])

    def _follow(self, job: dict[str, Any]) -> None:
        self.job_id, self.job_number = int(job["id"]), int(job["number"])
        self.job_type, self.job_status = str(job["type"]), str(job["status"])
        self.job_error = str((job.get("error") or {}).get("message") or "") if job["status"] == "FAILED" else ""
        steps = build_steps(job)
        if steps != self.steps:
            self.steps = steps

    @rx.event
    async def retry(self) -> None:
        """Go on from where the failed job stood: what it made is found again."""
        await self._instead("retry_job", {"p_job": self.job_id})

    @rx.event
    async def roll_back(self) -> None:
        await self._instead("remove_cloud_worker", {"p_worker": self.worker_id})

    async def _instead(self, name: str, args: dict[str, Any]) -> None:
        if self.job_status in ("FAILED", "CANCELLED"):
            self._follow(await self._rpc(name, args))

    async def _deployment(self) -> dict[str, Any]:
        size = SIZES[self.size]
        options = {
            **size,
            **self._reach(),
            "scaling": {"min": 0 if self.is_scaled_to_zero else 1},
            **{name: text for name, text in self.options.items() if text},
        }
        return {
            "p_org": await self._org_id(),
            "p_name": self.name,
            "p_cloud_identity": self.identity_id,
            "p_region": self.region,
            "p_options": options,
        }
