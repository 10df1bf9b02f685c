"""State on the runner's disk: durable before it is acknowledged, delivered in order, never thrown away."""

import asyncio
import contextlib
import json
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.support.waiting import eventually
from tests.unit.worker.fakes import HandClock, Network, page, refusal
from worker.api.replies import JobRef
from worker.engines.rescue import left_state
from worker.statebackend import journal
from worker.statebackend.delivery import JournaledState, hand_over
from worker.statebackend.journal import (
    FOLDER,
    KEY_FILE,
    Entry,
    Journal,
    Kind,
    Seal,
    Unreadable,
    keep_journal,
    kept_entries,
    take_seal,
)

pytestmark = pytest.mark.anyio
REF = JobRef(job=7, attempt=2)
SECRET = '{"serial": 1, "password": "hunter2"}'


class Disk:
    """A runner's working directory."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.kept = root / "kept-states"
        self.folder = root / "jobs" / "7-2" / FOLDER
        self.seal = take_seal(root)

    def journal(self) -> Journal:
        return Journal(self.folder, self.kept, self.seal, REF)

    def state(self, network: Network) -> JournaledState:
        return JournaledState(network.server(), self.journal(), HandClock())


@pytest.fixture
def disk(tmp_path: Path) -> Disk:
    return Disk(tmp_path)


async def truth(value: object) -> bool:
    return bool(value)


# ---------------------------------------------------------------------------------------------- on disk


def test_nothing_of_a_state_can_be_read_without_the_runners_key(disk: Disk) -> None:
    disk.journal().append(Kind.PUT, "lock", SECRET)
    files = [path.read_bytes() for path in disk.root.rglob("*") if path.is_file()]
    assert len(files) == 2
    assert not any(b"hunter2" in content for content in files)
    assert (disk.root / KEY_FILE).stat().st_mode & 0o777 == 0o600
    assert take_seal(disk.root).open("n", disk.seal.close("n", b"x")) == b"x"


def test_a_new_process_finds_its_predecessors_entries_in_order(disk: Disk) -> None:
    first = disk.journal()
    for number in range(12):
        first.append(Kind.PUT, "lock", json.dumps({"serial": number}))
    first.append(Kind.UNLOCK, "lock")
    again = disk.journal()
    assert len(again) == 13
    assert again.newest == '{"serial": 11}'
    assert again.first is not None
    assert (again.first.number, again.first.body, again.first.ref) == (1, '{"serial": 0}', REF)
    assert again.append(Kind.PUT, None, "{}").number == 14


def test_an_entry_that_was_torn_by_a_crash_was_never_acknowledged_and_is_left_out(disk: Disk) -> None:
    disk.journal().append(Kind.PUT, "lock", SECRET)
    (disk.folder / "000002.part").write_bytes(b"half")
    assert len(disk.journal()) == 1


@pytest.mark.parametrize(
    "spoil", [lambda data: data[:-1] + bytes([data[-1] ^ 1]), lambda data: data[:20], lambda _: b""]
)
def test_an_unreadable_entry_is_kept_aside_and_the_others_remain(disk: Disk, spoil: Any) -> None:
    journal = disk.journal()
    journal.append(Kind.PUT, "lock", SECRET)
    journal.append(Kind.PUT, "lock", "{}")
    first = disk.folder / "000001.entry"
    first.write_bytes(spoil(first.read_bytes()))
    assert len(disk.journal()) == 1
    assert [path.name for path in disk.kept.iterdir()] == ["7-2-000001.entry"]
    assert kept_entries(disk.kept, disk.seal) == []


def test_an_entry_is_valid_for_its_own_attempt_and_number_only(disk: Disk) -> None:
    sealed = disk.seal.close("7/2/1", b"x")
    for name in ("7/2/2", "7/3/1", "8/2/1"):
        with pytest.raises(Unreadable):
            disk.seal.open(name, sealed)
    with pytest.raises(Unreadable):
        Seal(os.urandom(32)).open("7/2/1", sealed)


def test_a_key_of_the_wrong_size_is_refused(tmp_path: Path) -> None:
    (tmp_path / KEY_FILE).write_bytes(b"short")
    with pytest.raises(OSError, match="not a key"):
        take_seal(tmp_path)


def test_a_journal_without_a_record_is_moved_aside_and_can_be_read_there(disk: Disk) -> None:
    disk.journal().append(Kind.PUT, "lock", SECRET)
    keep_journal(disk.folder.parent, disk.kept, REF)
    ((_, entry),) = kept_entries(disk.kept, disk.seal)
    assert (entry.body, entry.ref, entry.kind) == (SECRET, REF, Kind.PUT)


def test_pulumis_checkpoint_of_a_dead_attempt_is_found_as_an_export(tmp_path: Path) -> None:
    stacks = tmp_path / "pulumi-state" / ".pulumi" / "stacks" / "project"
    stacks.mkdir(parents=True)
    latest = {"manifest": {}, "resources": [{"urn": "a"}]}
    (stacks / "runyard.json").write_text(json.dumps({"version": 3, "checkpoint": {"stack": "x", "latest": latest}}))
    assert json.loads(left_state(tmp_path) or "") == {"version": 3, "deployment": latest}
    (stacks / "runyard.json").write_text('{"version": 3, "che')
    assert left_state(tmp_path) is None


def test_a_link_in_the_place_of_a_state_is_not_followed(tmp_path: Path) -> None:
    (tmp_path / "secret.json").write_text('{"serial": 1}')
    job = tmp_path / "job"
    job.mkdir()
    (job / "errored.tfstate").symlink_to(tmp_path / "secret.json")
    assert left_state(job) is None
    (job / "deeper").mkdir()
    (job / "deeper" / "errored.tfstate").write_text('{"serial": 2}')
    assert left_state(job) == '{"serial": 2}'


# ---------------------------------------------------------------------------------------------- delivery


async def test_a_state_is_acknowledged_while_the_project_is_away_and_delivered_in_order_after(disk: Disk) -> None:
    is_away = True

    def answer(*_: Any) -> Any:
        return httpx.ConnectError("down") if is_away else {}

    network = Network(answer)
    state = disk.state(network)
    running = asyncio.create_task(state.run())
    for number in (1, 2, 3):
        await state.state_put(REF, json.dumps({"serial": number}), "lock")
    await state.state_unlock(REF, "lock")
    assert (await state.state_get(REF)).body == '{"serial": 3}'
    assert len(disk.journal()) == 4
    is_away = False
    await state.settled()
    running.cancel()
    delivered = [
        (name, body.get("p_body")) for name, body in dict.fromkeys((n, json.dumps(b)) for n, b in network.calls)
        for body in [json.loads(body)]
    ]  # fmt: skip
    assert delivered == [
        *(("worker_state_put", json.dumps({"serial": n})) for n in (1, 2, 3)),
        ("worker_state_unlock", None),
    ]
    assert len(disk.journal()) == 0
    # This attempt's last state is known without a request, even when the project is unreachable again.
    is_away = True
    assert (await state.state_get(REF)).body == '{"serial": 3}'


async def test_a_state_of_a_released_job_is_kept_aside_and_handed_over(disk: Disk) -> None:
    network = Network(lambda name, _: {"is_stored": False} if name == "worker_state_keep" else refusal("RY410", "gone"))
    state = disk.state(network)
    running = asyncio.create_task(state.run())
    await state.state_put(REF, SECRET, "lock")
    await state.state_unlock(REF, "lock")
    await state.settled()
    running.cancel()
    (kept,) = network.named("worker_state_keep")
    assert (kept["p_job"], kept["p_attempt"], kept["p_number"], kept["p_body"], kept["p_reason"]) == (
        7,
        2,
        1,
        SECRET,
        "gone",
    )
    assert list(disk.kept.iterdir()) == []


async def test_a_state_that_the_server_refuses_stays_on_disk_for_the_next_start(disk: Disk) -> None:
    network = Network(lambda *_: refusal("RY410", "gone"))
    state = disk.state(network)
    running = asyncio.create_task(state.run())
    await state.state_put(REF, SECRET, "lock")
    await state.settled()
    running.cancel()
    ((path, entry),) = kept_entries(disk.kept, disk.seal)
    taken = Network(lambda *_: {"is_stored": False})
    assert await hand_over(taken.server(), path, entry, "late")
    assert not path.exists()


@pytest.mark.parametrize(
    "passing",
    [(405, {"code": "25006", "message": "read-only"}), page(), (404, {"message": "no route"})],
    ids=["read-only database", "proxy's page", "proxy's refusal"],
)
async def test_a_state_refused_temporarily_is_delivered_afterwards(disk: Disk, passing: Any) -> None:
    answers = iter([passing])
    network = Network(lambda *_: next(answers, {}))
    state = disk.state(network)
    running = asyncio.create_task(state.run())
    await state.state_put(REF, SECRET, "lock")
    await state.settled()
    running.cancel()
    assert [name for name, _ in network.calls] == ["worker_state_put"] * 2
    assert len(disk.journal()) == 0
    assert not disk.kept.exists()


async def test_a_session_that_is_over_leaves_the_state_for_the_next_start(disk: Disk) -> None:
    state = disk.state(Network(lambda *_: refusal("RY401", "over")))
    await state.state_put(REF, SECRET, "lock")
    await state.run()
    await state.settled()
    assert len(disk.journal()) == 1


async def test_a_full_disk_sends_the_state_to_the_server_before_it_is_acknowledged(
    disk: Disk, monkeypatch: pytest.MonkeyPatch
) -> None:
    network = Network(lambda *_: {})
    state = disk.state(network)
    running = asyncio.create_task(state.run())

    def full(*_: Any) -> Entry:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Journal, "append", full)
    await state.state_put(REF, SECRET, "lock")
    assert network.named("worker_state_put")[0]["p_body"] == SECRET
    await state.state_unlock(REF, "lock")
    assert network.named("worker_state_unlock")
    running.cancel()


def failing_once(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    """A disk that fails at the first try."""
    real, errors = getattr(Path, name), iter([OSError(5, "Input/output error")])

    def act(path: Path, *arguments: Any, **named: Any) -> Any:
        for error in errors if path.suffix == ".entry" else ():
            raise error
        return real(path, *arguments, **named)

    monkeypatch.setattr(Path, name, act)


async def test_an_entry_that_cannot_be_removed_is_delivered_again_until_it_can(
    disk: Disk, monkeypatch: pytest.MonkeyPatch
) -> None:
    network = Network(lambda *_: {})
    state = disk.state(network)
    failing_once(monkeypatch, "unlink")
    running = asyncio.create_task(state.run())
    await state.state_put(REF, SECRET, "lock")
    async with asyncio.timeout(60):
        await state.settled()
    running.cancel()
    assert len(network.named("worker_state_put")) == 2
    assert len(disk.journal()) == 0


async def test_a_disk_that_keeps_failing_ends_the_delivery(disk: Disk, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: Any) -> None:
        raise OSError(30, "Read-only file system")

    state = disk.state(Network(lambda *_: {}))
    await state.state_put(REF, SECRET, "lock")
    monkeypatch.setattr(Journal, "delivered", fail)
    with pytest.raises(OSError, match="Read-only"):
        async with asyncio.timeout(60):
            await state.run()
    assert len(disk.journal()) == 1


async def test_a_state_that_a_proxy_refuses_for_long_is_kept_aside(disk: Disk) -> None:
    state = disk.state(Network(lambda *_: (413, {"message": "too large"})))
    running = asyncio.create_task(state.run())
    await state.state_put(REF, SECRET, "lock")
    async with asyncio.timeout(60):
        await state.settled()
    running.cancel()
    ((_, entry),) = kept_entries(disk.kept, disk.seal)
    assert entry.body == SECRET


@pytest.mark.parametrize("fails", ["rename", "sync"])
async def test_a_refused_state_that_cannot_be_moved_aside_stays_until_it_can(
    disk: Disk, monkeypatch: pytest.MonkeyPatch, fails: str
) -> None:
    state = disk.state(Network(lambda *_: refusal("RY410", "gone")))
    await state.state_put(REF, SECRET, "lock")
    if fails == "rename":
        failing_once(monkeypatch, "rename")
    else:
        errors = iter([OSError(5, "Input/output error")])
        monkeypatch.setattr(journal, "sync_directory", lambda _: [(_ for _ in ()).throw(error) for error in errors])
    running = asyncio.create_task(state.run())
    async with asyncio.timeout(60):
        await state.settled()
    running.cancel()
    ((_, entry),) = kept_entries(disk.kept, disk.seal)
    assert entry.body == SECRET


async def test_a_handed_over_state_that_cannot_be_removed_blocks_nobody(
    disk: Disk, monkeypatch: pytest.MonkeyPatch
) -> None:
    state = disk.state(Network(lambda name, _: {} if name == "worker_state_keep" else refusal("RY410", "gone")))
    await state.state_put(REF, SECRET, "lock")
    failing_once(monkeypatch, "unlink")
    waiting = asyncio.create_task(state.settled())
    running = asyncio.create_task(state.run())
    async with asyncio.timeout(60):
        await waiting
    running.cancel()
    assert len(kept_entries(disk.kept, disk.seal)) == 1


async def test_a_lock_does_not_overtake_the_unlock_before_it(disk: Disk) -> None:
    network = Network(lambda *_: {})
    state = disk.state(network)
    await state.state_unlock(REF, "old")
    locking = asyncio.create_task(state.state_lock(REF, {"ID": "new"}))
    await asyncio.sleep(0)
    assert network.calls == []
    running = asyncio.create_task(state.run())
    await locking
    running.cancel()
    await eventually(lambda: truth([name for name, _ in network.calls] == ["worker_state_unlock", "worker_state_lock"]))


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Disk]:
    place = tmp_path / "small"
    place.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=4m", "tmpfs", str(place)], capture_output=True, text=True, check=False
    )
    if mounted.returncode != 0:
        pytest.skip(f"a filesystem cannot be mounted here: {mounted.stderr.strip()}")
    try:
        yield Disk(place)
    finally:
        subprocess.run(["umount", "--lazy", str(place)], check=True)


@pytest.mark.parametrize("is_reserved", [True, False])
def test_a_state_has_room_that_was_reserved_before_the_disk_was_full(small_disk: Disk, is_reserved: bool) -> None:
    kept = small_disk.journal()
    if is_reserved:
        kept.reserve(1 << 20)
    with (small_disk.root / "ballast").open("wb", buffering=0) as ballast, contextlib.suppress(OSError):
        while True:
            ballast.write(b"\0" * 4096)
    state = json.dumps({"serial": 1, "text": "x" * 500_000})
    if not is_reserved:
        with pytest.raises(OSError, match="No space left"):
            kept.append(Kind.PUT, "lock", state)
        return
    kept.append(Kind.PUT, "lock", state)
    assert [each.body for each in small_disk.journal()._waiting] == [state]


def test_missing_space_for_the_reserve_is_an_error(small_disk: Disk) -> None:
    with pytest.raises(OSError, match="No space left"):
        small_disk.journal().reserve(64 << 20)
