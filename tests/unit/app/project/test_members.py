"""Nobody is handed an organisation's live rows who does not belong to it now."""

from typing import Any, cast

import pytest

from app.project.authorized_client import AuthorizedClient
from app.project.errors import NotThere
from app.project.hub import TabHub
from app.project.members import Members
from app.project.models import BrowserSession

pytestmark = pytest.mark.anyio
SOMEBODY = BrowserSession("sid", "u", "ops@example.com", "a", "r", 9e12, 0.0)


class FakeAuthorizedClient:
    """A project that knows one person's organisations."""

    def __init__(self, *org_ids: str) -> None:
        self.org_ids = list(org_ids)
        self.asked = 0

    async def rpc(self, session: BrowserSession, name: str, args: Any = None) -> list[dict[str, str]]:
        self.asked += 1
        return [{"id": org_id} for org_id in self.org_ids]


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
