"""`runyard doctor --project` before a real project, whole and with one point of it broken at a time."""

import json
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import httpx
import pytest

from cli.errors import ExitCode
from stack.settings import PROJECT
from tests.support.stack import RunningStack, clean_environment
from tests.support.waiting import wait_until

Change = Callable[[Any], Any]
NOT_FOUND = {"code": "NOT_FOUND", "message": "Requested function was not found"}
REFUSED = {"code": "UNAUTHORIZED_NO_AUTH_HEADER", "message": "Missing authorization header"}


def doctor(stack: RunningStack, url: str, **changes: str) -> tuple[int, dict[str, Any]]:
    """Its exit code, and its findings by name."""
    given = {
        "SUPABASE_URL": url,
        "SUPABASE_PUBLISHABLE_KEY": stack.publishable_key,
        "SUPABASE_SECRET_KEY": stack.secret_key,
    }
    done = subprocess.run(
        [sys.executable, "-m", "cli", "doctor", "--project", "--json"],
        cwd=PROJECT, env={**clean_environment(), **given, **changes}, capture_output=True, text=True, timeout=300,
        check=False,
    )  # fmt: skip
    assert done.stdout, done.stderr
    assert stack.secret_key not in done.stdout + done.stderr
    return done.returncode, {check["name"]: check for check in json.loads(done.stdout)}


@contextmanager
def broken(stack: RunningStack, path: str, status: int | None = None, change: Change | None = None) -> Iterator[str]:
    """The same project, by an address where one answer has another status or another body."""

    class Handler(BaseHTTPRequestHandler):
        def answer(self) -> None:
            body = self.rfile.read(int(self.headers.get("content-length", "0")))
            headers = {name: value for name, value in self.headers.items() if name.lower() != "host"}
            real = httpx.request(self.command, stack.url + self.path, content=body, headers=headers, timeout=60)
            code, text = real.status_code, real.content
            if self.path.split("?")[0] == path:
                code = status or code
                text = json.dumps(change(real.json())).encode() if change else text
            self.send_response(code)
            self.send_header("content-length", str(len(text)))
            self.end_headers()
            self.wfile.write(text)

        do_GET = do_POST = answer  # noqa: N815  (http.server looks for these names)

        def log_message(self, *_: object) -> None:
            return

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()


def test_a_healthy_project_passes_every_check(running_stack: RunningStack) -> None:
    wait_until(lambda: running_stack.get("/functions/v1/health/sweep").status_code == 200)
    code, found = doctor(running_stack, running_stack.url)
    assert (code, [name for name, check in found.items() if not check["is_well"]]) == (0, []), found
    assert "something else drives the sweep" in found["extensions"]["said"]
    assert running_stack.secrets.signing_jwk["kid"] in found["JWT keys"]["said"]
    functions = {f"functions/{entry.parent.name}" for entry in PROJECT.glob("supabase/functions/*/index.ts")}
    assert {name for name in found if name.startswith("functions/")} == functions


@pytest.mark.parametrize(
    ("path", "status", "change", "name", "said"),
    [
        ("/functions/v1/notify", 404, lambda _: NOT_FOUND, "functions/notify", "supabase functions deploy"),
        ("/functions/v1/worker-session", 401, lambda _: REFUSED, "functions/worker-session", "JWT verification"),
        ("/auth/v1/.well-known/jwks.json", None, lambda _: {"keys": []}, "JWT keys", "JWT keys"),
        (
            "/functions/v1/health/settings",
            None,
            lambda found: {**found, "signing_key": None},
            "JWT keys",
            "WORKER_SIGNING_JWK",
        ),
        (
            "/functions/v1/health/settings",
            None,
            lambda found: {**found, "dashboard_url": None},
            "dashboard",
            "RUNYARD_DASHBOARD_URL",
        ),
        (
            "/rest/v1/rpc/installation_health",
            None,
            lambda found: {**found, "published": ["rollouts"]},
            "publication",
            "run the migrations",
        ),
        (
            "/rest/v1/rpc/installation_health",
            None,
            lambda found: {**found, "swept_seconds_ago": None},
            "sweep",
            "has not run yet",
        ),
        (
            "/rest/v1/rpc/installation_health",
            404,
            lambda _: {"code": "PGRST202", "message": "Could not find the function"},
            "secret key",
            "supabase db push",
        ),
        ("/auth/v1/settings", None, lambda found: {**found, "external": {"email": False}}, "publishable key", "email"),
    ],
)
def test_each_broken_point_is_reported_with_its_reason_or_remedy(
    running_stack: RunningStack, path: str, status: int | None, change: Change | None, name: str, said: str
) -> None:
    with broken(running_stack, path, status, change) as url:
        code, found = doctor(running_stack, url)
    assert code == ExitCode.UNHEALTHY
    assert (found[name]["is_well"], said in found[name]["said"]) == (False, True), found[name]


def test_keys_of_another_project_are_named(running_stack: RunningStack) -> None:
    code, found = doctor(
        running_stack, running_stack.url, SUPABASE_SECRET_KEY="sb_secret_x", SUPABASE_PUBLISHABLE_KEY="sb_publishable_x"
    )
    assert code == ExitCode.UNHEALTHY
    assert not found["secret key"]["is_well"]
    assert not found["publishable key"]["is_well"]
    _, absent = doctor(running_stack, "http://127.0.0.1:1")
    assert (list(absent), absent["address"]["is_well"]) == (["program", "address"], False)
