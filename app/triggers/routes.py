"""The way to a GitHub App: a page that posts the app's manifest to GitHub, as GitHub wants it."""

import hashlib
import html
import json
import re
import secrets
from urllib.parse import urlencode

from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response
from starlette.routing import BaseRoute, Route

from app.http.api_routes import BadQuery, guarded, org_of
from app.http.origins import own_address
from app.project.models import BrowserSession, Row
from app.project.runtime import Runtime

GITHUB = "https://github.com"
_ADDRESS = re.compile(r"https?://[A-Za-z0-9.:-]{1,200}")
_OWNER = re.compile(r"[A-Za-z0-9-]{0,100}")
PAGE = """<!doctype html><html lang="en"><head><meta charset="utf-8"><title>Create GitHub App</title></head><body>
<form id="app" method="post" action="{action}"><input type="hidden" name="manifest" value="{manifest}">
<button>Continue to GitHub</button></form><script>document.getElementById("app").submit()</script></body></html>
"""


def build_routes(runtime: Runtime) -> list[BaseRoute]:
    # GitHub leads the browser back: the state, and the member who began it, stand in for our own page.
    done = guarded(runtime, complete, is_from_elsewhere=True)
    return [Route("/api/git/app", guarded(runtime, begin)), Route("/api/git/app/{app:uuid}", done)]


async def begin(runtime: Runtime, session: BrowserSession, request: Request) -> Response:
    """Begin an app and lead the browser to GitHub; `owner` is an organisation there."""
    url, owner = request.query_params.get("url") or GITHUB, request.query_params.get("owner") or ""
    if not _ADDRESS.fullmatch(url) or not _OWNER.fullmatch(owner):
        raise BadQuery
    state = secrets.token_urlsafe(32)
    arguments = {
        "p_org": await org_of(runtime, session, request),
        "p_state_hash": hashlib.sha256(state.encode()).hexdigest(),
        "p_url": url,
    }
    app = await runtime.authorized.rpc(session, "start_git_app", arguments)
    dashboard = own_address(request, runtime.settings.origins)
    manifest = build_manifest(app, f"{runtime.settings.runner_url}/functions/v1/git", dashboard)
    place = f"{url}/organizations/{owner}" if owner else url
    action = f"{place}/settings/apps/new?{urlencode({'state': state})}"
    body = PAGE.format(action=html.escape(action), manifest=html.escape(json.dumps(manifest)))
    # A form to another place, and nothing else.
    policy = f"default-src 'none'; script-src 'unsafe-inline'; form-action {url}; frame-ancestors 'none'"
    return HTMLResponse(body, headers={"content-security-policy": policy, "cache-control": "no-store"})


async def complete(runtime: Runtime, session: BrowserSession, request: Request) -> Response:
    """Hand GitHub's code on, as the member who is signed in, and lead the browser to the page that installs the app."""
    said = {name: request.query_params.get(name, "")[:200] for name in ("code", "state")}
    body = {"app": str(request.path_params["app"]), **said}
    made = await runtime.authorized.invoke(session, "git/apps", body)
    return RedirectResponse(str(made["install_url"]), status_code=303)


def build_manifest(app: Row, functions: str, dashboard: str) -> Row:
    """Describe the app: where its events go, and the least rights that plans and reports need."""
    return {
        "name": f"Runyard {str(app['id'])[:8]}",
        "url": dashboard,
        "hook_attributes": {"url": f"{functions}/{app['id']}", "active": True},
        "redirect_url": f"{dashboard}/api/git/app/{app['id']}",
        "public": False,
        "default_permissions": {
            "contents": "read", "metadata": "read", "statuses": "write", "pull_requests": "write", "issues": "write",
            "merge_queues": "read",
        },
        "default_events": ["push", "pull_request", "issue_comment", "merge_group"],
    }  # fmt: skip
