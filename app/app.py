"""The dashboard's wiring: routes, guard, pages, and the tasks that keep pages live."""

import importlib
import importlib.util

import reflex as rx
from starlette.types import ASGIApp

from app.auth.guard import DenyByDefault
from app.auth.headers import with_headers
from app.auth.origins import with_origin_advice
from app.auth.routes import build_api
from app.pages import Route
from app.services.runtime import runtime
from app.states.live import check_members, fan_out

PAGES = ("sign_in", "welcome", "runners", "runner", "jobs", "job", "modules", "settings", "not_found")


def _routes() -> list[Route]:
    routes: list[Route] = []
    for name in PAGES:
        if importlib.util.find_spec(f"app.pages.{name}") is None:
            continue
        routes.extend(importlib.import_module(f"app.pages.{name}").ROUTES)
    return routes


def _head() -> list[rx.Component]:
    return [
        rx.el.script(src="/runyard.js", defer=True),
        rx.el.link(rel="icon", href="/mark.svg", type="image/svg+xml"),
        rx.el.link(
            rel="preload",
            href="/fonts/Inter.woff2",
            type="font/woff2",
            cross_origin="anonymous",
            custom_attrs={"as": "font"},
        ),
    ]


def _with_advice(inner: ASGIApp) -> ASGIApp:
    return with_origin_advice(inner, runtime().settings.origins)


app = rx.App(
    stylesheets=["/tokens.css", "/look.css", "/runyard.css", "/job/job.css", "/work.css"],
    head_components=_head(),
    html_lang="en-GB",
    api_transformer=[build_api(runtime()), with_headers, _with_advice],
    toaster=rx.toast.provider(position="bottom-right", close_button=True, visible_toasts=3),
)
# The mark in the top bar says the same in our words, and stays true while the server is away.
app.app_wraps[5, "Overlay"] = lambda _stateful: None
app.add_middleware(DenyByDefault(), index=0)
app.register_lifespan_task(fan_out, app=app)
app.register_lifespan_task(check_members, app=app)
for route in _routes():
    app.add_page(route.build, route=route.path, title=f"{route.title} · Runyard", on_load=route.on_load)
