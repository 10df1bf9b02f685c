"""health: a monitor sees without a credential that no driver sweeps."""

import httpx
import psycopg

from tests.integration.edge.conftest import Edge


def ask(edge: Edge) -> httpx.Response:
    return httpx.get(f"{edge.url}/health/sweep", timeout=60)


def test_a_sweep_that_is_late_is_an_outage(edge: Edge) -> None:
    with psycopg.connect(edge.stack.db_url, autocommit=True) as connection:
        # The stack's own supervisor waits meanwhile: this lock is the sweep's.
        connection.execute("select pg_advisory_lock(private.lock_key('sweep'))")
        connection.execute(
            "insert into private.clocks values ('swept', now() - interval '1 hour')"
            " on conflict (name) do update set ran_at = excluded.ran_at"
        )
        late = ask(edge)
        assert (late.status_code, late.json()["status"]) == (503, "late")
        assert late.json()["swept_seconds_ago"] >= 3600
        assert httpx.get(f"{edge.url}/health", timeout=60).json() == {"status": "ok"}
        connection.execute("select pg_advisory_unlock(private.lock_key('sweep')), private.sweep()")
    assert (ask(edge).status_code, ask(edge).json()["status"]) == (200, "ok")


def test_a_database_that_cannot_write_is_an_outage(edge: Edge) -> None:
    """As hosted Supabase does with a full disk; the setting is that of one function here, so that other tests can write."""
    with psycopg.connect(edge.stack.db_url, autocommit=True) as connection:
        connection.execute("alter function private.write_fault() set default_transaction_read_only = on")
        try:
            full = ask(edge)
        finally:
            connection.execute("alter function private.write_fault() reset default_transaction_read_only")
    assert (full.status_code, full.json().get("status")) == (503, "unwritable")
    assert full.json()["message"] == "PostgreSQL cannot write: the database is read-only."
    assert "Free space" in full.json()["hint"]
