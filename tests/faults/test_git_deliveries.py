"""Deliveries while parts of the stack are killed at random: each acknowledged one is recorded once, and decided."""

import os
import random
import signal
import threading
import uuid
from collections.abc import Callable
from typing import Any

import httpx
import psycopg
import pytest

from tests.conftest import _open_folder
from tests.faults.test_triggers import SECRET, Person, connect, sign_up
from tests.support.extent import choose_seed
from tests.support.stack import RunningStack, start_stack
from tests.support.waiting import wait_until
from tests.support.webhooks import gitea, push_body

URL = "https://git.example.com/infra/edge.git"
SENDERS = 3
KILLS = 6
OPTIONS = ("--no-demo", "--no-dashboard")
VERDICTS = "select delivery_id, verdict, job_id from public.git_deliveries where org_id = %s and event = 'push'"
LIVE = "select j.id from public.provision_jobs as j where j.org_id = %s and j.type = 'RESOLVE' and j.status = 'QUEUED'"
END = "select private.end_job(%s, 'FAILED', 'failed', 'system', null, 'system', 'Nobody reads it.')"


class Ledger:
    """A provider's knowledge: the deliveries that were answered with success."""

    def __init__(self) -> None:
        self.sent: list[str] = []
        self.acknowledged: set[str] = set()
        self.is_over = threading.Event()

    def send(self, address: Callable[[], str]) -> None:
        """Send one after the other until it is over; one that is not acknowledged is not sent again."""
        while not self.is_over.is_set():
            delivery, body = uuid.uuid4().hex, push_body("main", "a" * 40)
            self.sent.append(delivery)
            try:
                answer = httpx.post(address(), content=body, headers=gitea(SECRET, body, delivery=delivery), timeout=20)
            except httpx.HTTPError:
                continue
            if answer.status_code == httpx.codes.ACCEPTED:
                self.acknowledged.add(delivery)


def follow(person: Person) -> str:
    source = {"url": URL, "ref": "main"}
    person.call(
        "create_module", org=person.org, group_path="a", name="git", spec={"source_kind": "git", "source": source}
    )
    spec = {"provider": "gitea", "url": URL, "webhook_secret": person.seal_secret(SECRET), "poll_seconds": 0}
    return str(person.call("connect_repository", org=person.org, spec=spec)["id"])


def read(stack: RunningStack, query: str, org: str) -> list[tuple[Any, ...]] | None:
    try:
        with connect(stack) as connection:
            return connection.execute(query, [org]).fetchall()
    except psycopg.Error:
        return None


def end_reading(stack: RunningStack, org: str) -> bool:
    """End the readings that wait; true when no delivery waits any more."""
    for (job,) in read(stack, LIVE, org) or []:
        with connect(stack) as connection:
            connection.execute(END, [job])
    rows = read(stack, VERDICTS, org)
    return rows is not None and all(verdict != "PENDING" for _, verdict, _ in rows)


@pytest.mark.slow
def test_an_acknowledged_delivery_is_recorded_once_and_decided(tmp_path_factory: pytest.TempPathFactory) -> None:
    home, ledger, chance = _open_folder(tmp_path_factory.mktemp("git")), Ledger(), random.Random(choose_seed())
    address = ""
    threads = [threading.Thread(target=ledger.send, args=(lambda: address,)) for _ in range(SENDERS)]

    def more(count: int) -> None:
        goal = len(ledger.acknowledged) + count
        wait_until(lambda: len(ledger.acknowledged) >= goal, timeout_seconds=180)

    with start_stack(home, *OPTIONS) as stack:
        person = sign_up(stack)
        connection = follow(person)
        address = f"{stack.url}/functions/v1/git/{connection}"
        for thread in threads:
            thread.start()
        for _ in range(KILLS):
            more(5)
            stack.kill_part(chance.choice(("functions", "gateway", "postgres")))
        more(5)
        os.kill(stack.process.pid, signal.SIGKILL)
        stack.process.wait(180)
    with start_stack(home, *OPTIONS) as again:
        address = f"{again.url}/functions/v1/git/{connection}"
        more(5)
        ledger.is_over.set()
        for thread in threads:
            thread.join(120)
        rows = wait_until(lambda: read(again, VERDICTS, person.org), timeout_seconds=120)
        found = [delivery for delivery, _, _ in rows]
        assert len(found) == len(set(found)), "each once"
        assert ledger.acknowledged <= set(found) <= set(ledger.sent), "nothing lost, nothing invented"
        assert all(job is not None for _, _, job in rows), "each has the job that decides it"
        wait_until(lambda: end_reading(again, person.org), timeout_seconds=120)
