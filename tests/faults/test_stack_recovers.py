"""kill -9 of each part in the middle of traffic: everything recovers automatically, and committed data is kept."""

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psycopg
import pytest

from tests.integration.worker_bench import Bench, open_bench
from tests.support.stack import RunningStack
from tests.support.waiting import wait_until


@contextmanager
def traffic(stack: RunningStack) -> Iterator[list[int]]:
    """Insert numbered rows over a connection of its own until the end; the list contains the acknowledged ones."""
    acknowledged: list[int] = []
    end = threading.Event()

    def insert() -> None:
        number = 0
        while not end.is_set():
            try:
                with psycopg.connect(stack.db_url, connect_timeout=2, autocommit=True) as connection:
                    while not end.is_set():
                        number += 1
                        connection.execute("insert into public.fault_ledger values (%s)", [number])
                        acknowledged.append(number)
            except psycopg.Error:
                end.wait(0.05)

    with psycopg.connect(stack.db_url) as connection:
        connection.execute("create table if not exists public.fault_ledger (number int primary key)")
        connection.execute("truncate public.fault_ledger")
    thread = threading.Thread(target=insert)
    thread.start()
    try:
        yield acknowledged
    finally:
        end.set()
        thread.join(60)


@pytest.mark.parametrize("part", ["postgres", "gateway", "functions"])
def test_a_killed_part_restarts_automatically(tough_stack: RunningStack, part: str) -> None:
    with traffic(tough_stack) as acknowledged:
        wait_until(lambda: len(acknowledged) > 20)
        tough_stack.kill_part(part)
        before = len(acknowledged)
        wait_until(lambda: len(acknowledged) > before)
    with psycopg.connect(tough_stack.db_url) as connection:
        kept = {row[0] for row in connection.execute("select number from public.fault_ledger")}
    assert set(acknowledged) <= kept
    assert tough_stack.process.poll() is None


def test_the_stack_recovers_when_every_backend_is_ended_at_once(tough_stack: RunningStack) -> None:
    with psycopg.connect(tough_stack.db_url, autocommit=True) as connection:
        statement = (
            "select pg_terminate_backend(pid) from pg_stat_activity where pid <> pg_backend_pid() and usename = any(%s)"
        )
        connection.execute(statement, [["authenticator"]])
    wait_until(tough_stack.is_healthy)


@pytest.fixture
def bench(tough_stack: RunningStack, tmp_path: Path) -> Iterator[Bench]:
    """A bench on the stack whose parts are killed."""
    with open_bench(tough_stack, tmp_path) as made:
        yield made


def test_a_runner_that_starts_while_the_database_does_not_answer_waits_for_it(
    tough_stack: RunningStack, bench: Bench
) -> None:
    worker = bench.register()
    with psycopg.connect(tough_stack.db_url) as connection:
        connection.execute("lock table private.worker_tokens in access exclusive mode")
        runner = bench.start_worker(worker)
        wait_until(lambda: runner.said("session_not_opened") or runner.process.poll() is not None)
    bench.online(worker)


def test_the_second_signal_does_not_cut_the_orderly_stop_short(fresh_stack: RunningStack) -> None:
    for _ in range(3):
        fresh_stack.process.send_signal(signal.SIGTERM)
    assert fresh_stack.process.wait(180) == 0
    log = (fresh_stack.settings.log_folder / "postgres.log").read_text()
    assert "database system is shut down" in log
