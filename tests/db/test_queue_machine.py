"""Any order of events over the real functions, every status and refusal predicted by a model; `RUNYARD_EXAMPLES=500` looks for longer."""

import os

from hypothesis import HealthCheck, settings
from hypothesis.stateful import run_state_machine_as_test

from tests.db.queue_machine import QueueMachine
from tests.db.world import World
from tests.support.database import Database, IdleConnections, Server

EXAMPLES = int(os.environ.get("RUNYARD_EXAMPLES", "8"))
SETTINGS = settings(
    max_examples=EXAMPLES,
    stateful_step_count=40,
    derandomize="RUNYARD_EXAMPLES" not in os.environ,
    database=None,
    deadline=None,
    suppress_health_check=list(HealthCheck),
)


def test_the_queue_keeps_its_promises_in_any_order(
    postgres_server: Server, module_database: str, idle_connections: IdleConnections, world: World
) -> None:
    world.up_for_long()

    def machine() -> QueueMachine:
        return QueueMachine(World.open(Database(postgres_server, module_database, idle_connections)))

    run_state_machine_as_test(machine, settings=SETTINGS)  # type: ignore[arg-type]
