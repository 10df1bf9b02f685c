"""The driver of each engine; all have the same methods."""

from typing import assert_never

from worker.attempt.workspace import Workspace
from worker.engines.hcl import HclDriver
from worker.engines.pulumi import PulumiDriver
from worker.engines.terragrunt import TerragruntDriver
from worker.enums import EngineName


def driver_for(space: Workspace) -> HclDriver | PulumiDriver:
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
