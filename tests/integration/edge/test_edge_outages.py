"""The edge functions while Auth or the database fails: they refuse nobody because of it."""

import json
from typing import Any

import pytest

from tests.integration.edge.test_edge_shared import run

SCRIPT = """
    import {{ handler }} from "@shared/../{function}/handler.ts";
    import {{ signEngine }} from "@shared/tokens.ts";
    const jwk = JSON.stringify({{ kty: "oct", alg: "HS256", k: btoa("k".repeat(33)) }});
    const variables = {{ SUPABASE_URL: "http://project", SUPABASE_SECRET_KEY: "s", SUPABASE_PUBLISHABLE_KEY: "p",
      WORKER_SIGNING_JWK: jwk }};
    Deno.env.get = (name) => variables[name];
    const replies = {replies};
    globalThis.fetch = (input) => {{
      const path = new URL(input).pathname;
      const [, left] = Object.entries(replies).find(([start]) => path.startsWith(start));
      const reply = left.length > 1 ? left.shift() : left[0];
      if (reply === null) return Promise.reject(new TypeError("connection refused"));
      const [status, said, headers] = reply;
      const body = typeof said === "string" ? said : JSON.stringify(said);
      return Promise.resolve(new Response(body, {{ status, headers }}));
    }};
    const request = new Request({url}, {request});
    if ("{function}" === "terraform") {{
      const token = await signEngine({{ sub: "w", sid: "s", org: "o", inst: "i", job: "7", att: "1" }});
      request.headers.set("authorization", "Bearer " + token);
    }}
    const answer = await handler(request);
    console.log(JSON.stringify({{ status: answer.status, said: await answer.json() }}));
"""
USERS, VERIFY, LINK = "/auth/v1/admin/users/", "/auth/v1/verify", "/auth/v1/admin/generate_link"
LIMIT, TAKE, OUTPUTS = "/rest/v1/rpc/rate_limit", "/rest/v1/rpc/take_device_login", "/rest/v1/rpc/worker_outputs_get"
ID = "7d5a0f5e-6a7c-4a54-9d0b-0d6c1f3b2a10"
# Auth's newer shape, which the client asks for, and the older one.
NOBODY = [404, {"code": "user_not_found", "message": "User not found"}, {"x-supabase-api-version": "2024-01-01"}]
NOBODY_BEFORE = [404, {"code": 404, "error_code": "user_not_found", "msg": "User not found"}]
BUSY = [503, {"code": "PGRST001", "message": "Database client error."}]
PAGE = "<html>Bad gateway</html>"


def ask(function: str, replies: dict[str, Any], path: str = "", **request: Any) -> Any:
    """Return a function's answer. The project's parts give these replies, and repeat the last one; None is silence."""
    url = f"http://functions/{function}{path}"
    given = {"function": function, "replies": json.dumps(replies), "url": json.dumps(url)}
    return run(SCRIPT.format(**given, request=json.dumps(request)))


def poll(user: Any) -> Any:
    """Request the login of a confirmed code; Auth answers with this when it is queried for the user."""
    body = {"grant_type": "urn:ietf:params:oauth:grant-type:device_code", "device_code": "d" * 40}
    replies = {
        LIMIT: [[200, True]],
        TAKE: [[200, {"status": "confirmed", "user_id": ID}]],
        USERS: [user],
        LINK: [[200, {"id": ID, "email": "a@example.com", "hashed_token": "h"}]],
        VERIFY: [[200, {"access_token": "t"}]],
    }
    return ask("device-login", replies, method="POST", body=json.dumps(body))


def test_a_login_is_opened_for_the_person_who_confirmed() -> None:
    found = poll([200, {"id": ID, "email": "a@example.com", "email_confirmed_at": "2026-01-01T00:00:00Z"}])
    assert (found["status"], found["said"]) == (200, {"access_token": "t"})


@pytest.mark.parametrize("nobody", [NOBODY, NOBODY_BEFORE])
def test_an_account_is_removed_only_by_an_answer_of_auth(nobody: Any) -> None:
    found = poll(nobody)
    assert (found["status"], found["said"]["code"], found["said"]["error"]) == (403, "RY403", "access_denied")


@pytest.mark.parametrize(
    "reply",
    [
        pytest.param(None, id="silence"),
        pytest.param([500, {"code": 500, "error_code": "unexpected_failure", "msg": "Database error"}], id="database"),
        pytest.param([502, PAGE], id="gateway"),
        pytest.param([404, "<html>No such route</html>"], id="no route yet"),
        pytest.param([401, {"message": "Invalid API key"}], id="key"),
    ],
)
def test_a_failure_of_auth_is_not_reported_as_a_removed_account(reply: Any) -> None:
    found = poll(reply)
    assert (found["status"], found["said"]["code"]) == (503, "RY503")


def outputs(reply: Any) -> Any:
    return ask("terraform", {OUTPUTS: [reply]}, "/api/v2/organizations/o/workspaces/apps.web")


@pytest.mark.parametrize(
    "reply",
    [
        pytest.param(BUSY, id="database"),
        pytest.param([500, {"code": "57P01", "message": "terminating connection"}], id="restart"),
        pytest.param([405, {"code": "25006", "message": "cannot execute in a read-only transaction"}], id="read-only"),
        pytest.param([429, {"message": "Too many requests"}], id="hurry"),
        pytest.param([502, PAGE], id="gateway"),
        pytest.param([404, PAGE], id="no route yet"),
        pytest.param([200, PAGE], id="sign-in page"),
        pytest.param(None, id="silence"),
    ],
)
def test_remote_state_answers_503_while_the_database_fails(reply: Any) -> None:
    found = outputs(reply)
    assert (found["status"], found["said"]["errors"][0]["status"]) == (503, "503")
    assert found["said"]["errors"][0]["detail"]


@pytest.mark.parametrize(
    ("reply", "status"),
    [
        ([400, {"code": "RY403", "message": "Not granted."}], 403),
        ([400, {"code": "RY410", "message": "The attempt has ended."}], 403),
        ([404, {"code": "PGRST202", "message": "No such function."}], 403),
        ([403, {"code": "42501", "message": "permission denied"}], 403),
        ([401, {"code": "PGRST301", "message": "JWT expired"}], 401),
    ],
)
def test_remote_state_is_refused_when_the_database_refuses(reply: Any, status: int) -> None:
    assert outputs(reply)["status"] == status
