"""The dashboard's wiring: routes, guard, pages, and the tasks that keep pages live."""

from functools import partial
from typing import Any

import reflex as rx

from app.events import page as events
from app.events import routes as event_routes
from app.figures import page as figures
from app.figures import routes as figure_routes
from app.frame import not_found
from app.frame.layout import Route
from app.frame.palette.state import PaletteState
from app.frame.releases.dialog import release_notes
from app.frame.releases.state import ReleaseNotesState
from app.frame.session import SessionState
from app.guard.events import DenyByDefault
from app.http.api import build_api
from app.http.headers import with_headers
from app.http.origins import with_origin_advice
from app.jobs import job_page
from app.jobs import page as jobs
from app.jobs import routes as job_routes
from app.live import lead_on
from app.live.fan_out import fan_out, watch_contact
from app.live.members import check_members
from app.modules import graph_page
from app.modules import page as modules
from app.modules import routes as module_routes
from app.move_in import page as move_in_page
from app.move_in import routes as move_in_routes
from app.project.runtime import runtime
from app.runners import page as runners
from app.runners import runner_page, versions_page
from app.runners.components.dialogs import confirmations
from app.runners.state.actions import RunnerActionState
from app.settings import page as settings
from app.settings import routes as audit_routes
from app.sign_in import device_page, welcome_page
from app.sign_in import page as sign_in
from app.sign_in import routes as sign_in_routes
from app.triggers import change_page
from app.triggers import page as reviews
from app.triggers import routes as git_routes
from app.ui.controls import INSIDE, ROUTE
from app.variables import page as variables

# The routes that the browser uses without the websocket.
API = (sign_in_routes, job_routes, module_routes, move_in_routes, event_routes, figure_routes, audit_routes, git_routes)
# A feature's rules come after those of the kit and the frame, so that they win.
STYLES = ("tokens", "ui", "frame", "sign_in", "jobs", "log", "modules", "runners", "triggers", "settings", "figures")
OUTSIDE = (*sign_in.ROUTES, *welcome_page.ROUTES, *device_page.ROUTES, *lead_on.ROUTES)
FRAMED = (
    *runners.ROUTES,
    *runner_page.ROUTES,
    *versions_page.ROUTES,
    *jobs.ROUTES,
    *job_page.routes(RunnerActionState.enable),
    *modules.ROUTES,
    *graph_page.ROUTES,
    *change_page.ROUTES,
    *reviews.ROUTES,
    *variables.ROUTES,
    *move_in_page.ROUTES,
    *figures.ROUTES,
    *events.ROUTES,
    *settings.ROUTES,
    *not_found.ROUTES,
)
PAGES = (*OUTSIDE, *FRAMED)


def _head() -> list[rx.Component]:
    return [
        # Not deferred: the page's scripts wait for no deferred one, and the server calls these functions once the socket is open.
        rx.el.script(src="/connection.js"),
        rx.el.script(src="/sign_in.js"),
        rx.el.script(src="/runyard.js"),
        rx.el.script(src="/needs_you.js"),
        rx.el.script(src="/dialogs.js", defer=True),
        rx.el.script(src="/palette.js", defer=True),
        rx.el.link(rel="icon", href="/mark.svg", type="image/svg+xml"),
        rx.el.link(
            rel="preload",
            href="/fonts/Inter.woff2",
            type="font/woff2",
            cross_origin="anonymous",
            custom_attrs={"as": "font"},
        ),
    ]


def _loads(route: Route) -> Any:
    """Return the events that open a page; behind the sign-in they first close dialogs of another page or of before a reload."""
    own = route.on_load if isinstance(route.on_load, list) else [route.on_load]
    is_framed = route.path.startswith(INSIDE)
    left = [PaletteState.leave, ReleaseNotesState.leave, RunnerActionState.leave]
    return [*left, *own] if is_framed else route.on_load


def _framed(route: Route) -> rx.Component:
    """A page with the dialogs that every page in the frame can open."""
    return rx.fragment(
        route.build(),
        release_notes(RunnerActionState.ask("update_all", "")),
        *confirmations(SessionState.outdated_by_job, SessionState.latest_version),
    )


origins = runtime().settings.origins
app = rx.App(
    stylesheets=[f"/css/{name}.css" for name in STYLES],
    head_components=_head(),
    html_lang="en-GB",
    api_transformer=[
        build_api(runtime(), [part.build_routes for part in API]),
        partial(with_headers, origins=origins),
        partial(with_origin_advice, allowed=origins),
    ],
    toaster=rx.toast.provider(position="top-center", close_button=True, visible_toasts=3, rich_colors=False),
)
# The mark in the top bar shows the same in our words, and stays true while the server is away.
app.app_wraps[5, "Overlay"] = lambda _stateful: None
app.add_middleware(DenyByDefault(), index=0)
app.register_lifespan_task(fan_out, app=app)
app.register_lifespan_task(check_members, app=app)
app.register_lifespan_task(watch_contact)
for route in PAGES:
    build = partial(_framed, route) if route in FRAMED else route.build
    path = route.path.replace(INSIDE, ROUTE) if route in FRAMED else route.path
    app.add_page(build, route=path, title=f"{route.title} · Runyard", on_load=_loads(route))
