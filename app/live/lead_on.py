"""The addresses of before, /dashboard/jobs/7, lead on to those that name an organisation."""

from urllib.parse import urlencode, urlunsplit

import reflex as rx

from app.frame.layout import Route, page
from app.live.page import LivePage
from app.ui.controls import INSIDE, within
from app.ui.panel import failed

HOME = "/dashboard/runners"


class LeadOnState(LivePage, rx.State):
    """The way on: to the organisation that the link names, else to the last one."""

    async def _open(self) -> rx.event.EventSpec:
        who, url = await self._who(), self.router.url
        await who._begin()
        query = urlencode({name: text for name, text in url.query_parameters.items() if name != "org"}, safe="/")
        asked = url.path.rstrip("/")
        path = within(who.org_slug, HOME if asked == INSIDE else asked)
        # A link to a line of a log has it after the #.
        return rx.redirect(urlunsplit(("", "", path, query, url.fragment)), replace=True)


def lead_on() -> rx.Component:
    """Show the empty frame for the moment, or why it goes no further."""
    problem = failed("Not opened", LeadOnState.problem, LeadOnState.problem_hint, LeadOnState.load)
    return page(rx.cond(LeadOnState.problem != "", problem), title="", active="")


ROUTES = (Route("/dashboard/[[...splat]]", "Runyard", lead_on, LeadOnState.load),)
