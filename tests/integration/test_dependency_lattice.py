"""Twenty modules in five steps with OpenTofu itself: each uses outputs of two others, and every value is checked."""

from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest

from tests.integration.test_dependencies import is_quiet, terminal
from tests.integration.worker_bench import Bench, bench
from tests.support.terminal import Terminal
from tests.support.waiting import wait_until

__all__ = ["bench", "terminal"]
pytestmark = [pytest.mark.slow, pytest.mark.timeout(3600)]

STEPS, WIDTH = 5, 4
ROOT = """
variable "name" { type = string }
resource "terraform_data" "it" { input = var.name }
output "seen" { value = terraform_data.it.output }
"""
REST = """
variable "left" { type = string }
variable "right" { type = string }
resource "terraform_data" "it" { input = substr(sha256("${var.left} ${var.right}"), 0, 12) }
output "seen" { value = terraform_data.it.output }
"""
LEDGER = """select p.path as producer, c.path as consumer from public.module_dependencies as d
  join public.modules as p on p.id = d.producer_id join public.modules as c on c.id = d.consumer_id
  join lateral (select min(e.id) as at from public.job_events as e join public.provision_jobs as j on j.id = e.job_id
    where j.module_id = {after} and j.type = '{kind}' and e.event = 'enqueued') as began on true
  join lateral (select min(e.id) as at from public.job_events as e join public.provision_jobs as j on j.id = e.job_id
    where j.module_id = {before} and j.type = '{kind}' and e.event = 'succeeded') as ended on true
  where d.org_id = %s and (ended.at is null or began.at is null or ended.at > began.at)"""


def above(step: int, place: int) -> dict[str, str]:
    """The modules whose outputs are one module's inputs."""
    return {"left": f"grid/s{step - 1}-m{place}", "right": f"grid/s{step - 1}-m{(place + 1) % WIDTH}"}


def expected(names: list[str]) -> list[str]:
    """The outputs of the last step, computed as the modules do."""
    for _ in range(STEPS - 1):
        pairs = [f"{names[place]} {names[(place + 1) % WIDTH]}" for place in range(WIDTH)]
        names = [sha256(pair.encode()).hexdigest()[:12] for pair in pairs]
    return names


def fill(bench: Bench, names: list[str]) -> list[dict[str, Any]]:
    """Create the modules; their dependencies."""
    edges = []
    for step in range(STEPS):
        for place in range(WIDTH):
            spec: dict[str, Any] = {"source_kind": "inline", "engine": "tofu", "auto_apply": True}
            spec |= {"source": {"files": {"main.tf": REST if step else ROOT}}}
            spec |= {} if step else {"inputs": {"name": names[place]}}
            called = {"p_org": bench.org, "p_group_path": "grid", "p_name": f"s{step}-m{place}", "p_spec": spec}
            bench.rpc("create_module", **called)
            for name, producer in above(step, place).items() if step else ():
                edge = {"consumer": f"grid/s{step}-m{place}", "producer": producer, "cascades": "on_change"}
                edges.append({**edge, "bindings": {name: "seen"}})
    return edges


def seen(terminal: Terminal) -> list[str]:
    paths = [f"grid/s{STEPS - 1}-m{place}" for place in range(WIDTH)]
    return [terminal.run("modules", "outputs", path, "seen").stdout.strip() for path in paths]


def out_of_order(bench: Bench, kind: str) -> list[Any]:
    ends = ("d.producer_id", "d.consumer_id")
    before, after = ends if kind == "APPLY" else ends[::-1]
    with bench.database() as database:
        return database.execute(LEDGER.format(before=before, after=after, kind=kind), [bench.org]).fetchall()


def test_twenty_modules_are_applied_changed_cascaded_and_destroyed(
    bench: Bench, terminal: Terminal, tmp_path: Path
) -> None:
    names = [f"n{place}" for place in range(WIDTH)]
    edges = fill(bench, names)
    bench.rpc("replace_dependencies", p_org=bench.org, p_path="grid", p_dependencies=edges)
    bench.runner(options={"capacity": 2})
    done = terminal.run("groups", "apply", "grid", "--wait", "--yes")
    assert done.returncode == 0, done.stdout + done.stderr
    assert (seen(terminal), out_of_order(bench, "APPLY")) == (expected(names), [])

    names[1] = "changed"
    root = bench.rows("modules", org_id=bench.org, path="grid/s0-m1")[0]["id"]
    bench.rpc("update_module", p_module=root, p_spec={"inputs": {"name": names[1]}})
    bench.finished("APPLY", root)
    wait_until(lambda: seen(terminal) == expected(names), timeout_seconds=1800, every_seconds=2)
    wait_until(lambda: is_quiet(bench), timeout_seconds=600, every_seconds=1)

    gone = terminal.run("groups", "destroy", "grid", "--wait", "--yes")
    assert gone.returncode == 0, gone.stdout + gone.stderr
    assert out_of_order(bench, "DESTROY") == []
