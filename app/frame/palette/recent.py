"""The pages that were viewed last in this tab, for the palette to offer before anything is typed."""

import reflex as rx

from app.frame.palette.view import Item
from app.frame.session import AppState, SessionState

KEPT = 20
SHOWN = 5
Visit = tuple[str, str, Item]


class RecentState(rx.State):
    """The newest visits first, each with whose it was: the next person, or another organisation, is shown none of them."""

    _visits: list[Visit] = []

    def _note(self, who: SessionState, item: Item) -> None:
        """Put a visit first, without its details: they would be old by the time they are shown."""
        seen = item.copy()
        seen["id"], seen["aside"] = f"recent-{item['id']}", ""
        visit = (who.user_id, who.org_id, seen)
        others = [one for one in self._visits if one[:2] != visit[:2] or one[2]["id"] != seen["id"]]
        self._visits = [visit, *others][:KEPT]

    def _of(self, who: SessionState) -> list[Item]:
        """Return the pages that this person viewed in this organisation."""
        mine = (who.user_id, who.org_id)
        return [item for *whose, item in self._visits if tuple(whose) == mine][:SHOWN]


async def note_visit(page: AppState, item: Item) -> None:
    """Remember that the person of this tab viewed something."""
    recent: RecentState = await page.get_state(RecentState)
    recent._note(await page._who(), item)
