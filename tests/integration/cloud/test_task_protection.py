"""A real runner protects its task while it applies, and not while it plans."""

from tests.integration.worker_bench import Bench, bench
from tests.support.ecs_agent import ecs_agent
from tests.support.waiting import wait_until

__all__ = ["bench"]


def test_a_task_is_protected_during_an_apply_or_destroy_and_not_during_a_plan(bench: Bench) -> None:
    with ecs_agent() as agent:
        bench.runner(ECS_AGENT_URI=agent.url)
        module = bench.module()
        bench.finished("PLAN", module)
        assert agent.asked == []
        bench.finished("APPLY", module)
        wait_until(lambda: agent.switches == [True, False])
        bench.finished("DESTROY", module)
        wait_until(lambda: agent.switches == [True, False, True, False])
