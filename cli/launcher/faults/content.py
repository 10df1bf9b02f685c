"""The two modules that a drill runs: slow, offline, and each line that they print has its number."""

import json
import re
from typing import Any

from cli.launcher.demo.content import MODULES

GROUP = "drill"
PLAN, APPLY = "slow-plan", "slow-apply"
# A plan is slow by its hook, which knows nothing of the job's variables.
PLAN_LINES = 8
LINE = re.compile(r"drill line (\d+) of (\d+)")
PATHS = [f"{GROUP}/{PLAN}", f"{GROUP}/{APPLY}", *(f"{module.group}/{module.name}" for module in MODULES)]
"""Every module that the demo itself brings: whatever else runs is somebody's."""


def _count_to(last: str) -> str:
    return f'i=0; while [ $i -lt {last} ]; do i=$((i+1)); echo "drill line $i of {last}"; sleep 1; done'


def specs() -> dict[str, dict[str, Any]]:
    """Each module by its name."""
    slow = {
        "variable": {"lines": {"type": "number", "default": 20}},
        "resource": {
            "terraform_data": {
                "slow": {
                    # Another one each time, so that each apply has something to do.
                    "triggers_replace": "${plantimestamp()}",
                    "provisioner": {"local-exec": {"command": _count_to("${var.lines}")}},
                }
            }
        },
    }
    quick = {"resource": {"terraform_data": {"quick": {"input": "nothing to wait for"}}}}
    return {
        APPLY: _spec(slow, "An apply that prints a line each second, for “Break something”"),
        PLAN: _spec(quick, "A plan that prints a line each second, for “Break something”")
        | {"hooks": {"before_plan": _count_to(str(PLAN_LINES))}},
    }


def _spec(main: dict[str, Any], description: str) -> dict[str, Any]:
    source = {"files": {"main.tf.json": json.dumps(main, indent=2)}}
    return {"description": description, "source_kind": "inline", "source": source, "engine": "tofu"}
