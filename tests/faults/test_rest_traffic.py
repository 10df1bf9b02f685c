"""REST and Auth while the database under them is killed: no acknowledged row is lost, no wrong answer is given."""

import threading
import uuid
from typing import Self

import httpx
import psycopg
import pytest

from supabase import ClientOptions, create_client
from tests.support.stack import RunningStack
from tests.support.waiting import wait_until

TABLE = "/rest/v1/fault_rows"
CALL = "/rest/v1/rpc/fault_write"
PASSWORD = "correct horse battery"


@pytest.fixture
def table(tough_stack: RunningStack) -> str:
    with psycopg.connect(tough_stack.db_url) as connection:
        connection.execute("create table public.fault_rows (number int primary key, writer int not null)")
        connection.execute("alter table public.fault_rows enable row level security")
        connection.execute("grant select, insert on public.fault_rows to service_role")
        connection.execute(
            "create function public.fault_write(p_number int, p_writer int) returns int language sql as"
            " 'insert into public.fault_rows values (p_number, p_writer) returning number'"
        )
        connection.execute("grant execute on function public.fault_write to service_role")
    headers = {"apikey": tough_stack.secret_key}
    wait_until(lambda: httpx.get(f"{tough_stack.url}{TABLE}", headers=headers, timeout=30).status_code == 200)
    return TABLE


class Writers:
    """Several clients that insert numbered rows and note what was acknowledged and every other answer."""

    def __init__(self, stack: RunningStack, count: int = 4) -> None:
        self.acknowledged: list[int] = []
        self.refusals: list[tuple[int, str]] = []
        self._stack = stack
        self._end = threading.Event()
        self._threads = [threading.Thread(target=self._write, args=(writer,)) for writer in range(count)]

    def __enter__(self) -> Self:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._end.set()
        for thread in self._threads:
            thread.join(60)

    def _write(self, writer: int) -> None:
        number = writer * 1_000_000
        headers = {"apikey": self._stack.secret_key}
        with httpx.Client(base_url=self._stack.url, headers=headers, timeout=30) as client:
            while not self._end.is_set():
                number += 1
                try:
                    done = client.post(CALL, json={"p_number": number, "p_writer": writer})
                except httpx.HTTPError:
                    self._end.wait(0.02)
                    continue
                if done.status_code == 200:
                    self.acknowledged.append(number)
                else:
                    self.refusals.append((done.status_code, done.text))
                    self._end.wait(0.02)


def test_acknowledged_rows_outlive_a_killed_database(tough_stack: RunningStack, table: str) -> None:
    with Writers(tough_stack) as writers:
        wait_until(lambda: len(writers.acknowledged) > 50)
        # What the killed server leaves behind may still answer for a while: only what comes then is its successor's.
        tough_stack.kill_part("postgres")
        before = len(writers.acknowledged)
        wait_until(lambda: len(writers.acknowledged) > before + 50, timeout_seconds=180)
    with psycopg.connect(tough_stack.db_url) as connection:
        kept = {row[0] for row in connection.execute("select number from public.fault_rows")}
    assert set(writers.acknowledged) <= kept
    # Whatever was not acknowledged was refused in PostgREST's shape, as a fault of the server.
    assert {status for status, _ in writers.refusals} <= {500, 503, 504}
    assert all('"code"' in text for _, text in writers.refusals)


def test_sessions_outlive_a_killed_database(tough_stack: RunningStack) -> None:
    options = ClientOptions(auto_refresh_token=False, persist_session=False)
    client = create_client(tough_stack.url, tough_stack.publishable_key, options)
    email = f"fault-{uuid.uuid4().hex[:8]}@example.com"
    client.auth.sign_up({"email": email, "password": PASSWORD})
    tough_stack.kill_part("postgres")
    refreshed = client.auth.refresh_session()
    assert refreshed.user is not None
    assert refreshed.user.email == email
    assert client.auth.sign_in_with_password({"email": email, "password": PASSWORD}).session is not None
