"""Nobody is handed an organisation's live rows who does not belong to it now."""

from typing import Any, cast
from unittest.mock import AsyncMock, MagicMock

import pytest

from app.project.authorized_client import AuthorizedClient
from app.project.errors import NotThere
from app.project.hub import TabHub, View
from app.project.members import Members, room_of
from app.project.models import BrowserSession
from app.project.sessions import MemorySessions

pytestmark = pytest.mark.anyio
SOMEBODY = BrowserSession("sid", "u", "ops@example.com", "a", "r", 9e12, 0.0)


class FakeAuthorizedClient:
    """A project that knows one person's organisations."""

    sessions: MemorySessions

    def __init__(self, *org_ids: str) -> None:
        self.org_ids = list(org_ids)
        self.sees: list[str] | None = None
        self.asked = 0

    async def rpc(self, session: BrowserSession, name: str, args: Any = None) -> list[dict[str, Any]]:
        self.asked += 1
        return [{"id": org_id, "sees": self.sees} for org_id in self.org_ids]

    async def fresh(self, session: BrowserSession) -> BrowserSession:
        return session


async def test_an_answer_is_believed_for_five_seconds_and_no_longer() -> None:
    authorized, now = FakeAuthorizedClient("org-1"), [0.0]
    members = Members(cast("AuthorizedClient", authorized), lambda: now[0])
    assert await members.is_member(SOMEBODY, "org-1")
    authorized.org_ids = []
    assert await members.is_member(SOMEBODY, "org-1")
    now[0] += 5.0
    assert not await members.is_member(SOMEBODY, "org-1")
    assert authorized.asked == 2


async def test_a_change_of_members_is_checked_at_once() -> None:
    authorized = FakeAuthorizedClient("org-1")
    members = Members(cast("AuthorizedClient", authorized))
    assert await members.is_member(SOMEBODY, "org-1")
    authorized.org_ids = []
    members.forget()
    assert not await members.is_member(SOMEBODY, "org-1")


async def test_the_hub_opens_nothing_for_somebody_outside() -> None:
    hub = TabHub(cast("AuthorizedClient", FakeAuthorizedClient("org-2")), cast("Any", None))
    with pytest.raises(NotThere):
        await hub.open("org-1", SOMEBODY)
    assert hub.store("org-1") is None


@pytest.mark.parametrize(
    ("sees", "room"),
    [(None, "org-1"), ([], "org-1 sees"), (["org-1:b", "org-1:a"], "org-1 sees org-1:a org-1:b")],
)
def test_members_who_see_the_same_share_a_feed(sees: list[str] | None, room: str) -> None:
    assert room_of({"id": "org-1", "sees": sees}) == room


async def test_a_feed_borrows_no_token_of_a_member_who_sees_something_else_now() -> None:
    authorized = FakeAuthorizedClient("org-1")
    authorized.sessions = MemorySessions()
    await authorized.sessions.put(SOMEBODY)
    hub = TabHub(cast("AuthorizedClient", authorized), cast("Any", None))
    guests = room_of({"id": "org-1", "sees": ["org-1:a"]})
    hub.enter(View("tab", "socket", SOMEBODY.sid, "org-1", "page", frozenset(), room=guests))
    authorized.sees = ["org-1:a"]
    assert await hub.member(guests) is SOMEBODY
    authorized.sees = None
    hub.members.forget()
    assert await hub.member(guests) is None


async def test_the_feeds_of_an_organisation_know_how_many_they_are() -> None:
    realtime = MagicMock()
    realtime.close = realtime.another.return_value.close = AsyncMock()
    hub = TabHub(cast("AuthorizedClient", FakeAuthorizedClient("org-1")), realtime)
    whole, part, other = (
        hub._start(*names) for names in (("org-1", "org-1"), ("org-1 sees", "org-1"), ("org-2", "org-2"))
    )
    assert [each.store.feeds for each in (whole, part, other)] == [2, 2, 1]
    await hub._stop("org-1 sees")
    assert whole.store.feeds == 1
    await hub.aclose()
