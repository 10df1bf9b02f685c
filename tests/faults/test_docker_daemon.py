"""A real Docker daemon that is stopped or killed in mid-apply and started again: nothing that the apply did is lost.

Anyone who kills a daemon must own it: RUNYARD_TEST_DOCKER_PID_FILE names the file with its process id, RUNYARD_TEST_DOCKER_START the
command that starts it. Skipped, with the reason, elsewhere.
"""

import signal
from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from tests.faults.ledger import close_ledger
from tests.faults.own_daemon import OwnDaemon, find_own
from tests.faults.real_executors import RealApply
from tests.faults.test_docker_outage import Daemon, applying, daemon
from tests.integration.worker_bench import Bench, bench
from tests.support.waiting import wait_until

__all__ = ["bench", "daemon"]
LIVE_RESTORE = "--live-restore"


def answers(daemon: Daemon) -> bool:
    try:
        return daemon.has("/_ping")
    except httpx.HTTPError:
        return False


def restart(own: OwnDaemon, daemon: Daemon, *more: str, number: signal.Signals = signal.SIGTERM) -> None:
    own.end(number)
    own.start(lambda: answers(daemon), *more)


@pytest.fixture
def own(daemon: Daemon) -> OwnDaemon:
    return find_own("RUNYARD_TEST_DOCKER_PID_FILE", "RUNYARD_TEST_DOCKER_START")


@pytest.fixture
def live_restore(own: OwnDaemon, daemon: Daemon) -> Iterator[None]:
    """The daemon with that setting, for one test."""
    restart(own, daemon, LIVE_RESTORE)
    yield
    restart(own, daemon)


def state_of(apply: RealApply) -> Any:
    return apply.bench.rpc("state_info", p_module=apply.module)


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
@pytest.mark.usefixtures("live_restore")
def test_with_live_restore_an_apply_continues_while_its_daemon_is_stopped(
    bench: Bench, daemon: Daemon, own: OwnDaemon, number: signal.Signals
) -> None:
    with applying(bench, daemon) as apply:
        own.end(number)
        wait_until(lambda: apply.runner.said("docker_silent"), timeout_seconds=180)
        apply.wait_for_its_end()
        bench.wait_job(apply.job, "SUCCEEDED")
        own.start(lambda: answers(daemon), LIVE_RESTORE)
        apply.check_whole()


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_without_live_restore_an_apply_receives_a_stop_signal_and_saves_its_state(
    bench: Bench, daemon: Daemon, own: OwnDaemon, number: signal.Signals
) -> None:
    """A daemon that leaves stops its containers in order; one that was killed does so when it is started again."""
    with applying(bench, daemon) as apply:
        restart(own, daemon, number=number)
        ended = bench.wait_job(apply.job)
        assert (ended["status"], ended["attempt"]) == ("FAILED", 1), ended["error"]
        assert "The executor received a stop signal" in ended["error"]["message"]
        assert (state_of(apply)["lock"], state_of(apply)["serial"] is not None) == (None, True)
        wait_until(lambda: not daemon.exists(apply.name), timeout_seconds=180)
        close_ledger(bench, [apply.job]).check()
