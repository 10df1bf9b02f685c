"""REST rpc against a pooled psycopg connection that does the same role switch, in the same run.

Run as `python -m benchmarks.rest`; `--url … --key … --db …` points it at a stack that is already running.
"""

import argparse
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Thread
from typing import Any
from urllib.parse import urlsplit

import psycopg
from psycopg_pool import ConnectionPool

from benchmarks.outcome import Outcome
from tests.support.stack import start_stack

LEVELS = (1, 16, 64)
POOL_SIZE = 10
ROUNDS = 3
ARGUMENTS = {"p_value": 21, "p_text": "runner"}
CLAIMS = json.dumps({"role": "anon"})
SETTINGS = (
    "select set_config('role', %s, true), set_config('request.jwt.claims', %s, true),"
    " set_config('request.method', %s, true), set_config('request.path', %s, true),"
    " set_config('request.headers', %s, true), set_config('search_path', %s, true),"
    " set_config('statement_timeout', %s, true)"
)
VALUES = ("anon", CLAIMS, "POST", "/rpc/bench_echo", "{}", '"public", "extensions"', "3s")
CALL = (
    "select public.bench_echo(p_value => a.p_value, p_text => a.p_text)::text"
    " from json_to_record(%s::json) as a(p_value int, p_text text)"
)
FUNCTION = """
create or replace function public.bench_echo(p_value int, p_text text) returns jsonb
language sql stable set search_path = '' as
$$ select pg_catalog.jsonb_build_object('value', p_value * 2, 'text', p_text, 'role', current_user) $$;
revoke execute on function public.bench_echo(int, text) from public;
grant execute on function public.bench_echo(int, text) to anon, authenticated;
"""


def summary(seconds: list[float], duration: float) -> dict[str, float]:
    """Requests per second and percentiles in milliseconds."""
    ordered = sorted(seconds)
    return {
        "per_second": round(len(ordered) / duration, 1),
        "p50_ms": round(ordered[len(ordered) // 2] * 1000, 3),
        "p99_ms": round(ordered[int(len(ordered) * 0.99)] * 1000, 3),
    }


def _direct_worker(pool: ConnectionPool, until: float, seconds: list[float]) -> None:
    body = json.dumps(ARGUMENTS)
    while (started := time.perf_counter()) < until:
        with pool.connection() as connection, connection.transaction():
            connection.execute(SETTINGS, VALUES, prepare=True)
            connection.execute(CALL, [body], prepare=True).fetchone()
        seconds.append(time.perf_counter() - started)


def measure_direct(url: str, connections: int, duration: float) -> list[float]:
    """The same role switch, claims and call by psycopg's own pool, one thread for each connection.

    Of psycopg's ways (threads, asyncio, each with and without its pipeline) this was the quickest at every level.
    """
    seconds: list[float] = []
    with ConnectionPool(url, min_size=POOL_SIZE, max_size=POOL_SIZE, kwargs={"autocommit": True}) as pool:
        pool.wait()
        until = time.perf_counter() + duration
        threads = [Thread(target=_direct_worker, args=(pool, until, seconds)) for _ in range(connections)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    return seconds


def measure_rest(url: str, key: str, connections: int, duration: float) -> list[float]:
    """The call over HTTP, from a process of its own."""
    place = urlsplit(url)
    body = json.dumps(ARGUMENTS)
    head = (
        f"POST /rest/v1/rpc/bench_echo HTTP/1.1\r\nhost: {place.netloc}\r\napikey: {key}\r\nauthorization: Bearer {key}\r\n"
        f"content-type: application/json\r\ncontent-length: {len(body)}\r\n\r\n"
    )
    job: dict[str, Any] = {"host": place.hostname, "port": place.port, "request": head + body}
    job |= {"connections": connections, "seconds": duration}
    command = [sys.executable, "-m", "benchmarks.load"]
    done = subprocess.run(command, input=json.dumps(job), capture_output=True, text=True, check=True)
    found = json.loads(done.stdout)
    if found["failures"]:
        raise RuntimeError(f"{found['failures']} requests failed")
    return list(found["seconds"])


def measure(url: str, key: str, pool_url: str, level: int, duration: float) -> dict[str, Any]:
    """Both ways with so many connections, alternating, so that a busy machine is unfair to neither."""
    direct: list[float] = []
    rest: list[float] = []
    for _ in range(ROUNDS):
        direct += measure_direct(pool_url, level, duration)
        rest += measure_rest(url, key, level, duration)
    row: dict[str, Any] = {
        "connections": level,
        "psycopg": summary(direct, duration * ROUNDS),
        "rest": summary(rest, duration * ROUNDS),
    }
    row["ratio"] = round(row["rest"]["per_second"] / row["psycopg"]["per_second"], 2)
    return row


def show(rows: list[dict[str, Any]]) -> None:
    """The table a person reads."""
    print(f"{'connections':>11} | {'psycopg/s':>9} {'p50':>8} {'p99':>8} | {'rest/s':>8} {'p50':>8} {'p99':>8} | ratio")
    for row in rows:
        a, b = row["psycopg"], row["rest"]
        print(
            f"{row['connections']:>11} | {a['per_second']:>9} {a['p50_ms']:>8} {a['p99_ms']:>8}"
            f" | {b['per_second']:>8} {b['p50_ms']:>8} {b['p99_ms']:>8} | {row['ratio']:>5}"
        )


@contextmanager
def target(options: argparse.Namespace) -> Iterator[tuple[str, str, str, str]]:
    """URL, key, owner's database URL and authenticator's database URL."""
    if options.url:
        yield options.url, options.key, options.db, options.pool_db or options.db
        return
    with tempfile.TemporaryDirectory() as folder:
        Path(folder).chmod(0o755)
        with start_stack(Path(folder), "--no-dashboard", "--no-demo") as stack:
            password = stack.secrets.password("authenticator")
            yield stack.url, stack.publishable_key, stack.db_url, stack.settings.database_url("authenticator", password)


def main() -> None:
    """Measure, show, keep."""
    parser = argparse.ArgumentParser(description=__doc__)
    for name in ("--url", "--key", "--db", "--pool-db"):
        parser.add_argument(name, default="")
    parser.add_argument("--seconds", type=float, default=2.0)
    options = parser.parse_args()
    outcome = Outcome("rest")
    rows = outcome.parts["rows"] = []
    with outcome.part("the stack"), target(options) as (url, key, db_url, pool_url):
        with psycopg.connect(db_url, autocommit=True) as connection:
            connection.execute(FUNCTION.encode())
        time.sleep(1)
        try:
            for level in LEVELS:
                with outcome.part(f"{level} connections"):
                    rows.append(measure(url, key, pool_url, level, options.seconds))
                    outcome.ratio(f"{level} connections", rows[-1]["ratio"])
        finally:
            with psycopg.connect(db_url, autocommit=True) as connection:
                connection.execute("drop function public.bench_echo(int, text)")
    show(rows)
    outcome.keep()


if __name__ == "__main__":
    main()
