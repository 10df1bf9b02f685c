"""The content of the demo organisation; every module runs offline with the engine's built-in resource."""

import json
from dataclasses import dataclass, field
from typing import Any

from cli.version import __version__

ORGANISATION = ("Example Platform", "example-platform")

GROUPS = {
    "platform": "What everything else stands on",
    "platform/network": "Addresses and routes",
    "data": "Warehouse and pipelines",
    "ml/training": "Needs machines with a GPU",
}


@dataclass(frozen=True)
class Module:
    """One module of the demo."""

    group: str
    name: str
    description: str
    resources: dict[str, Any]
    spec: dict[str, Any] = field(default_factory=dict)

    def as_spec(self) -> dict[str, Any]:
        """Write the module as inline files for OpenTofu."""
        main = {
            "variable": {name: {"default": value} for name, value in self.spec.get("inputs", {}).items()},
            "resource": {"terraform_data": self.resources},
            "output": {"names": {"value": sorted(self.resources)}},
        }
        files = {"main.tf.json": json.dumps({key: value for key, value in main.items() if value}, indent=2)}
        return {
            "description": self.description,
            "source_kind": "inline",
            "source": {"files": files},
            "engine": "tofu",
            **self.spec,
        }


def _resource(**values: Any) -> dict[str, Any]:
    return {"input": values}


MODULES = (
    Module(
        "platform/network",
        "vpc",
        "Address plan of the platform",
        {
            "vpc": _resource(cidr="10.20.0.0/16"),
            "subnet_a": _resource(cidr="10.20.1.0/24"),
            "subnet_b": _resource(cidr="10.20.2.0/24"),
        },
        {"inputs": {"region": "eu-west-1"}},
    ),
    Module(
        "platform",
        "cluster",
        "The cluster that services run on; an apply needs one approval",
        {"cluster": _resource(version="1.33"), "node_group": _resource(size=3)},
        {"approvals_required": 1},
    ),
    Module(
        "data",
        "warehouse",
        "Roles and schemas of the warehouse",
        {f"role_{name}": _resource(role=name) for name in ("reader", "writer", "loader")},
        {"hooks": {"before_plan": "echo 'Checking the warehouse before the plan'"}},
    ),
    Module(
        "data",
        "pipeline",
        "A module that fails, to show what a failure looks like",
        {"step": {"input": "${local.missing}"}},
    ),
    Module(
        "ml/training",
        "cluster",
        "Waits for a runner with a GPU, to show why a job waits",
        {"gpu_pool": _resource(size=2)},
        {"labels": ["gpu=true"]},
    ),
)

RELEASES = (
    {"version": "0.0.9", "notes": "### Fixed\n\n- Logs of a job that was cut off are shipped on the next start.\n"},
    {
        "version": __version__,
        "notes": (
            "### Added\n\n- OpenTofu, Terraform and Pulumi as steps, each with its own section in the log.\n"
            "- State kept in the database, fenced by attempt.\n- `runyard-worker doctor`.\n\n"
            "### Changed\n\n- A runner finishes its jobs before it updates.\n"
        ),
    },
)
