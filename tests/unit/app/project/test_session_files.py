"""Sign-ins outlive the process that made them, and nobody can use the files alone."""

from pathlib import Path
from typing import Any

import pytest

from app.project.models import BrowserSession
from app.project.session_files import KEY_FILE, TOUCH_SECONDS, FileSessions
from app.project.sessions import IDLE_SECONDS

pytestmark = pytest.mark.anyio


def session(sid: str = "sid", user: str = "u") -> BrowserSession:
    return BrowserSession(sid, user, "ops@example.com", "access-1", "refresh-1", 9.0e9, 0.0)


async def test_the_next_process_finds_them(tmp_path: Path) -> None:
    await FileSessions(tmp_path / "s").put(session())
    found = await FileSessions(tmp_path / "s").get("sid")
    assert found == session()


async def test_a_session_that_was_ended_stays_ended(tmp_path: Path) -> None:
    sessions = FileSessions(tmp_path)
    await sessions.put(session())
    await sessions.delete("sid")
    assert await FileSessions(tmp_path).get("sid") is None
    assert await sessions.get("sid") is None


async def test_session_files_reveal_nothing_and_only_their_owner_may_read_them(tmp_path: Path) -> None:
    await FileSessions(tmp_path / "s", "a secret").put(session())
    [path] = (tmp_path / "s").glob("*.session")
    assert "sid" not in path.name
    assert b"refresh-1" not in path.read_bytes()
    assert path.stat().st_mode & 0o077 == 0
    assert path.parent.stat().st_mode & 0o077 == 0
    assert not (tmp_path / "s" / KEY_FILE).exists()
    assert await FileSessions(tmp_path / "s", "another secret").get("sid") is None


@pytest.mark.parametrize("body", [b"", b"nonsense", b"\xff\xfe", b"a.b.c.d.e"])
async def test_a_damaged_file_is_a_session_that_is_over(tmp_path: Path, body: bytes) -> None:
    await FileSessions(tmp_path).put(session())
    [path] = tmp_path.glob("*.session")
    path.write_bytes(body)
    assert await FileSessions(tmp_path).get("sid") is None
    assert not path.exists()


async def test_a_file_put_under_another_name_opens_nothing(tmp_path: Path) -> None:
    sessions = FileSessions(tmp_path)
    await sessions.put(session())
    sessions._path("sid").rename(sessions._path("other"))
    assert await FileSessions(tmp_path).get("other") is None


async def test_an_idle_session_ends_and_its_file_is_removed(tmp_path: Path) -> None:
    now: list[float] = [1_000_000.0]
    await FileSessions(tmp_path, clock=lambda: now[0]).put(session())
    now[0] += IDLE_SECONDS + 1
    assert await FileSessions(tmp_path, clock=lambda: now[0]).get("sid") is None
    assert list(tmp_path.glob("*.session")) == []


async def test_a_changed_password_ends_the_others(tmp_path: Path) -> None:
    sessions = FileSessions(tmp_path)
    for one in (session("a"), session("b"), session("c", "somebody-else")):
        await sessions.put(one)
    await FileSessions(tmp_path).end_others("u", "a")
    await sessions.end_others("u", "a")
    left: list[Any] = [await FileSessions(tmp_path).get(sid) for sid in ("a", "b", "c")]
    assert [one is not None for one in left] == [True, False, True]
    assert await sessions.get("b") is None


async def test_a_session_in_use_is_written_again_now_and_then_and_not_each_time(tmp_path: Path) -> None:
    now: list[float] = [1_000_000.0]
    await FileSessions(tmp_path, clock=lambda: now[0]).put(session())
    [path] = tmp_path.glob("*.session")
    sessions = FileSessions(tmp_path, clock=lambda: now[0])
    for seconds, written_at in ((TOUCH_SECONDS - 1, 1_000_000.0), (2, 1_000_001.0 + TOUCH_SECONDS)):
        now[0] += seconds
        assert await sessions.get("sid") == session()
        assert path.stat().st_mtime == written_at
