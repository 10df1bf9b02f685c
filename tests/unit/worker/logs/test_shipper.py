"""The shipper: in order, again when not answered, never after a refusal."""

import asyncio
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.support.waiting import eventually
from tests.unit.worker.fakes import HandClock, Network, refusal
from worker.api.replies import JobRef
from worker.attempt.outcome import Outcome
from worker.clock import Clock
from worker.enums import JobStatus
from worker.logs.shipper import MOST_BYTES, MOST_CHUNKS, BatchRules, Shipper
from worker.logs.spool import Spool
from worker.running.reporter import finish_completely

pytestmark = pytest.mark.anyio
REF = JobRef(job=1, attempt=1)


ENDS = ("worker_finish", "worker_return_job")


class Store:
    """The chunks that a server would have stored."""

    def __init__(self) -> None:
        self.chunks: dict[int, str] = {}
        self.faults: list[Any] = []

    def __call__(self, name: str, body: dict[str, Any]) -> Any:
        if self.faults:
            fault = self.faults.pop(0)
            if fault == "reply lost":
                self._keep(body)
                return httpx.ReadError("lost")
            return fault
        return self._finish(body) if name in ENDS else self._keep(body)

    def _keep(self, body: dict[str, Any]) -> Any:
        for chunk in body.get("p_chunks", []):
            self.chunks.setdefault(chunk["seq"], chunk["body"])
        return {"last_seq": max(self.chunks, default=0)}

    def _finish(self, body: dict[str, Any]) -> Any:
        missing = [seq for seq in range(1, body["p_log"]["last_seq"] + 1) if seq not in self.chunks]
        return {"status": "PROCESSING" if missing else "SUCCEEDED", "missing": [[seq, seq] for seq in missing]}

    @property
    def text(self) -> str:
        return "".join(self.chunks[seq] for seq in sorted(self.chunks))


def filled(folder: Path, lines: int = 3) -> Spool:
    spool = Spool(folder)
    for number in range(lines):
        spool.append("plan", f"line {number}\n")
        spool.cut()
    return spool


async def test_everything_arrives_once_and_in_order_over_a_bad_network(tmp_path: Path) -> None:
    store, spool = Store(), filled(tmp_path, 200)
    store.faults = [httpx.ConnectError("down"), "reply lost", (503, {}), "reply lost", httpx.ReadError("x")]
    shipper = Shipper(Network(store).server(), REF, spool, BatchRules(), HandClock())
    shipper.drain()
    await shipper.run()
    assert store.text == "".join(f"line {number}\n" for number in range(200))


async def test_all_that_a_server_lacks_is_sent_again_in_as_many_calls_as_it_takes(tmp_path: Path) -> None:
    store, lines = Store(), 2 * MOST_CHUNKS + 3
    shipper = Shipper(Network(store).server(), REF, filled(tmp_path, lines), BatchRules(), HandClock())
    await shipper.resend([(1, lines)])
    assert store.text == "".join(f"line {number}\n" for number in range(lines))


async def test_a_refusal_ends_shipping_and_is_reported(tmp_path: Path) -> None:
    told: list[str] = []
    network = Network(lambda *_: refusal("RY410", "not yours"))
    shipper = Shipper(network.server(), REF, filled(tmp_path), BatchRules(), HandClock(), on_fenced=told.append)
    await shipper.run()
    assert told == ["not yours"]
    assert len(network.calls) == 1


async def test_requests_stay_small(tmp_path: Path) -> None:
    store, network_calls = Store(), []
    spool = Spool(tmp_path)
    for _ in range(60):
        spool.append("plan", "x" * 50_000 + "\n")
    network = Network(
        lambda name, body: network_calls.append(sum(len(c["body"]) for c in body["p_chunks"])) or store(name, body)
    )
    shipper = Shipper(network.server(), REF, spool, BatchRules(), HandClock())
    shipper.drain()
    await shipper.run()
    assert len(store.text) == 60 * 50_001
    assert max(network_calls) <= MOST_BYTES


async def test_the_first_line_leaves_at_once_and_the_next_wait(tmp_path: Path) -> None:
    store = Store()
    shipper = Shipper(Network(store).server(), REF, spool := Spool(tmp_path), BatchRules(period_seconds=300), Clock())

    async def has_chunks() -> bool:
        return bool(store.chunks)

    running = asyncio.create_task(shipper.run())
    for number in range(3):
        spool.append("plan", f"line {number}\n")
        shipper.added(1)
        if number == 0:
            await eventually(has_chunks, every_seconds=0.01)
    assert store.text == "line 0\n"
    shipper.drain()
    await running
    assert store.text == "line 0\nline 1\nline 2\n"


@pytest.mark.parametrize("name", ENDS)
async def test_an_end_sends_missing_chunks_and_is_then_repeated(tmp_path: Path, name: str) -> None:
    store, spool = Store(), filled(tmp_path, 5)
    network = Network(store)
    store.chunks = {2: "line 1\n", 4: "line 3\n"}
    server = network.server()
    outcome = Outcome(JobStatus.SUCCEEDED, is_returned=name == "worker_return_job")
    reply = await finish_completely(server, REF, outcome, spool, Shipper(server, REF, spool, BatchRules(), HandClock()))
    assert reply.status == "SUCCEEDED"
    assert store.text == "".join(f"line {number}\n" for number in range(5))
    assert len(network.named(name)) == 2
