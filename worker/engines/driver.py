"""The interface that a job needs of an engine, the same for every engine."""

from typing import Protocol, assert_never

from worker.attempt.workspace import Workspace
from worker.engines.hcl import HclDriver
from worker.engines.pulumi import PulumiDriver
from worker.engines.terragrunt import TerragruntDriver
from worker.enums import EngineName


class Driver(Protocol):
    """One engine, driven for one job."""

    async def write_inputs(self, space: Workspace) -> None:
        """Write the module's inputs in the engine's own form."""

    async def init(self, space: Workspace) -> None:
        """Make the module ready to be planned."""

    async def plan(self, space: Workspace, *, is_destroy: bool, is_refresh_only: bool) -> None:
        """Plan, and leave the summary in the workspace."""

    async def save_plan(self, space: Workspace) -> None:
        """Save the plan on the server, for the apply that may follow."""

    async def load_plan(self, space: Workspace) -> None:
        """Fetch the plan that this job applies."""

    async def apply(self, space: Workspace, *, is_destroy: bool) -> None:
        """Carry the plan out."""

    async def change_state(self, space: Workspace) -> None:
        """Move, remove or import resources of the state."""

    async def output(self, space: Workspace) -> None:
        """Read the outputs into the job's result."""

    async def rescue(self, space: Workspace) -> None:
        """Save what an interrupted apply left behind."""


def driver_for(space: Workspace) -> Driver:
    """Return the driver of the module's engine; `prepare` has chosen its version."""
    found = space.engine or space.context.finder.found[space.spec.module.engine]
    match found.name:
        case EngineName.TOFU | EngineName.TERRAFORM:
            return HclDriver(found)
        case EngineName.PULUMI:
            return PulumiDriver(found)
        case EngineName.TERRAGRUNT:
            return TerragruntDriver(found, space)
        case _ as never:
            assert_never(never)
