"""The loops of a connected runner, built once, with what wakes them."""

import asyncio
from dataclasses import dataclass, field

from worker.attempt.context import JobContext
from worker.clock import Clock
from worker.cloud.scaler import Scaler
from worker.dispatch.base import Dispatcher
from worker.doorbell import Doorbell
from worker.fitness import Fitness
from worker.host_facts import HostFacts
from worker.loops.claim import ClaimLoop
from worker.loops.heartbeat import Directives, Heartbeat
from worker.process_status import ProcessStatus
from worker.running.starter import JobStarter, OnEnd
from worker.running.table import JobTable
from worker.session.identity import RunnerIdentity
from worker.session.session import RunnerSession
from worker.update.handover import Updater


@dataclass(frozen=True)
class WakeUps:
    """The events that wake the loops; each may be set before a loop listens."""

    claim: asyncio.Event = field(default_factory=asyncio.Event)
    heartbeat: asyncio.Event = field(default_factory=asyncio.Event)

    def both(self) -> None:
        """Wake both loops."""
        self.claim.set()
        self.heartbeat.set()

    def notify(self, event: str) -> None:
        """Wake the loops that the doorbell's event concerns."""
        if event in {"wake", "joined", "lost"}:
            self.claim.set()
        if event in {"directive", "joined"}:
            self.heartbeat.set()


@dataclass(frozen=True)
class Parts:
    """The objects that the loops share."""

    context: JobContext
    session: RunnerSession
    identity: RunnerIdentity
    facts: HostFacts
    table: JobTable
    process_status: ProcessStatus
    clock: Clock
    wake_ups: WakeUps
    dispatcher: Dispatcher | None
    updater: Updater | None
    fitness: Fitness


@dataclass(frozen=True)
class Loops:
    """One of each."""

    starter: JobStarter
    claim: ClaimLoop
    heartbeat: Heartbeat
    scaler: Scaler
    doorbell: Doorbell


def build_loops(parts: Parts) -> Loops:
    """Put the loops together; nothing runs yet."""
    settings, server, wake_ups = parts.context.settings, parts.context.server, parts.wake_ups
    scaler = Scaler(
        server, settings.server.url, parts.clock, poll_seconds=settings.scaling.poll_seconds,
        is_rehearsal=settings.scaling.rehearse,
    )  # fmt: skip
    starter = _job_starter(parts, scaler)
    doorbell = Doorbell(settings.server.url, lambda: parts.session.grant, wake_ups.notify, parts.clock)
    claim = _claim_loop(parts, starter, doorbell)
    directives = Directives(
        parts.table, parts.process_status, wake_claim=wake_ups.claim.set, wake_heartbeat=wake_ups.heartbeat.set,
        own_capacity=settings.capacity,
    )  # fmt: skip
    directives.resize(parts.session.grant.worker)
    heartbeat = Heartbeat(
        server, parts.table, parts.process_status, parts.facts, directives.obey, parts.clock, wake_up=wake_ups.heartbeat
    )
    parts.session.listeners.append(lambda _: heartbeat.forget_facts())
    return Loops(starter, claim, heartbeat, scaler, doorbell)


def _job_starter(parts: Parts, scaler: Scaler) -> JobStarter:
    table, process_status, context = parts.table, parts.process_status, parts.context

    def on_free() -> None:
        parts.wake_ups.claim.set()
        scaler.wake()

    return JobStarter(
        table, process_status, context, parts.identity.home, parts.clock, dispatcher=parts.dispatcher,
        updater=parts.updater, fitness=parts.fitness, on_free=on_free, on_end=_serve_metrics(parts),
    )  # fmt: skip


def _serve_metrics(parts: Parts) -> OnEnd | None:
    """Serve metrics if a port is set; Prometheus' library is imported only then."""
    settings, status = parts.context.settings.metrics, parts.process_status
    if settings.port is None:
        return None
    from worker.metrics import Metrics

    metrics = Metrics()
    metrics.watch(lambda: len(parts.table), lambda: status.capacity, lambda: status.is_connected)
    metrics.serve(settings.host, settings.port)
    return metrics.note


def _claim_loop(parts: Parts, starter: JobStarter, doorbell: Doorbell) -> ClaimLoop:
    context = parts.context
    is_equipped = bool(parts.dispatcher or context.settings.engine.fetch_command)
    return ClaimLoop(
        context.server, parts.table, parts.process_status,
        lambda: is_equipped or bool(context.finder.found), starter.start, parts.clock,
        poll_seconds=context.settings.server.poll_seconds, is_rung=lambda: doorbell.is_live,
        wake_up=parts.wake_ups.claim,
    )  # fmt: skip
