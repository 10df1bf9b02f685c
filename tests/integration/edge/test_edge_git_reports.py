"""Reports of git results as a provider gets them: paths, headers, bodies, rate limits and deleted comments."""

import base64
import json
import os
import subprocess
import uuid
from collections.abc import Iterator
from typing import Any

import pytest

from stack.functions import find_deno
from stack.settings import PROJECT
from tests.db.git_site import Site, announce, commit, first_reading, merged, open_site
from tests.db.world import World
from tests.support.database import Database
from tests.support.git_provider import GitProvider, run_git_provider
from tests.support.real_gitea import RealGitea, real_gitea
from tests.support.waiting import wait_until

__all__ = ["real_gitea"]

FUNCTIONS = PROJECT / "supabase" / "functions"
DASHBOARD = "https://runyard.example.com"
ORG = "5b0a7a52-0000-4000-8000-000000000001"
TOKEN = "a token of the test"
SHA = "a" * 40
SEND = """
    import { seal } from "@functions/_shared/sealing.ts";
    import { send } from "@functions/notify/sending.ts";
    const results = [];
    for (const message of %s) {
      message.secret ??= await seal(message.org, %s);
      results.push(await send(message));
    }
    console.log(JSON.stringify(results));
"""
SEAL = """
    import { seal } from "@functions/_shared/sealing.ts";
    console.log(JSON.stringify(await seal(%s, %s)));
"""
STATUS: dict[str, Any] = {
    "kind": "status", "connection": ORG, "provider": "gitea", "base_url": None, "commit": SHA, "state": "failure",
    "description": "1 module: 2 to add, 0 to change, 1 to destroy", "job": {"number": 12},
}  # fmt: skip
ROW = {"path": "net/vpc_1", "job": 12, "result": "plan failed", "to_add": 2, "to_change": 0, "to_destroy": 1}
COMMENT = {**STATUS, "kind": "comment", "number": 7, "comment_id": None, "rows": [ROW]}


@pytest.fixture
def provider() -> Iterator[GitProvider]:
    with run_git_provider() as running:
        yield running


def deno(provider: GitProvider, script: str) -> Any:
    """Run a script beside the functions, which may reach the provider alone."""
    done = subprocess.run(
        [
            str(find_deno()), "run", "--quiet", "--no-prompt", f"--config={FUNCTIONS / 'deno.json'}",
            f"--allow-read={FUNCTIONS}", "--allow-env", f"--allow-net={provider.url.removeprefix('http://')}", "-",
        ],
        input=script.replace("@functions", f"file://{FUNCTIONS}"),
        env={
            "PATH": os.environ["PATH"], "HOME": os.environ["HOME"], "NOTIFICATIONS_KEY": "a key of the test",
            "SUPABASE_URL": "https://project.example.com", "RUNYARD_DASHBOARD_URL": DASHBOARD,
            "RUNYARD_ALLOW_PRIVATE_RECEIVERS": "true",
        },
        cwd=FUNCTIONS, capture_output=True, text=True, timeout=300, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def send(provider: GitProvider, *bodies: dict[str, Any], token: str = TOKEN) -> Any:
    """Send reports one after the other; returns how each went."""
    base = {"id": 1, "lease": ORG, "org": ORG, "event": "git.report", "channel": "git"}
    messages = [{**base, "body": {"url": f"{provider.url}/Infra/edge.git", **body}} for body in bodies]
    return deno(provider, SEND % (json.dumps(messages), json.dumps(token)))


@pytest.mark.parametrize(
    ("name", "path", "header", "state"),
    [
        ("gitea", f"/api/v1/repos/Infra/edge/statuses/{SHA}", ("authorization", f"token {TOKEN}"), "failure"),
        ("github", f"/api/v3/repos/Infra/edge/statuses/{SHA}", ("authorization", f"Bearer {TOKEN}"), "failure"),
        ("gitlab", f"/api/v4/projects/Infra%2Fedge/statuses/{SHA}", ("private-token", TOKEN), "failed"),
    ],
)
def test_a_status_is_written_as_its_provider_wants_it(
    provider: GitProvider, name: str, path: str, header: tuple[str, str], state: str
) -> None:
    (result,) = send(provider, {**STATUS, "provider": name})
    assert (result["status"], result["http_status"]) == ("DELIVERED", 201), result
    (request,) = provider.requests
    assert (request.method, request.path, request.headers[header[0]]) == ("POST", path, header[1])
    assert request.body == {
        "state": state, "description": STATUS["description"], "name" if name == "gitlab" else "context": "runyard",
        "target_url": f"{DASHBOARD}/o/{ORG}/jobs/12",
    }  # fmt: skip


def test_the_address_of_the_api_can_be_another(provider: GitProvider) -> None:
    url = {"url": "git@git.example.com:infra/edge.git", "base_url": f"{provider.url}/forge/api/v1/"}
    assert send(provider, {**STATUS, **url})[0]["status"] == "DELIVERED"
    assert provider.writes() == [("POST", f"/forge/api/v1/repos/infra/edge/statuses/{SHA}")]


@pytest.mark.parametrize(
    ("name", "comments", "comment", "edit"),
    [
        ("github", "/api/v3/repos/Infra/edge/issues/7/comments", "/api/v3/repos/Infra/edge/issues/comments", "PATCH"),
        ("gitlab", "/api/v4/projects/Infra%2Fedge/merge_requests/7/notes", None, "PUT"),
    ],
)
def test_a_comment_is_created_once_and_edited_in_place(
    provider: GitProvider, name: str, comments: str, comment: str | None, edit: str
) -> None:
    first = {**COMMENT, "provider": name}
    (created,) = send(provider, first)
    number = created["comment_id"]
    done = {**first, "comment_id": number, "state": "success", "rows": [{**ROW, "result": "applied"}]}
    forgotten = {**done, "comment_id": None}
    assert [each["comment_id"] for each in send(provider, done, forgotten)] == [number, number]
    where = f"{comment or comments}/{number}"
    assert provider.writes() == [("POST", comments), (edit, where), (edit, where)]
    ((_, text),) = provider.comments.items()
    assert text.splitlines() == [
        f"<!-- runyard {ORG} -->",
        "**Runyard** at aaaaaaa: 1 module: 2 to add, 0 to change, 1 to destroy",
        "",
        "| module | add | change | destroy | result | job |",
        "|---|---:|---:|---:|---|---|",
        f"| net/vpc\\_1 | 2 | 0 | 1 | applied | [#12]({DASHBOARD}/o/{ORG}/jobs/12) |",
    ]


def test_a_name_in_a_comment_mentions_nobody_and_draws_no_link(provider: GitProvider) -> None:
    hostile = "@everyone &#64;ada [x](https://evil.example) <img src=x> `code`"
    send(provider, {**COMMENT, "provider": "github", "description": hostile})
    ((_, text),) = provider.comments.items()
    shown = "@&#8203;everyone \\&\\#64;ada \\[x\\]\\(https://evil.example\\) \\<img src=x\\> \\`code\\`"
    assert text.splitlines()[1] == f"**Runyard** at aaaaaaa: {shown}"


def test_a_pull_request_without_modules_gets_no_comment(provider: GitProvider) -> None:
    (result,) = send(provider, {**COMMENT, "rows": [], "state": "success"})
    assert (result["status"], provider.requests) == ("DELIVERED", [])


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        ((429, {"retry-after": "37"}, ""), {"status": "FAILED", "http_status": 429, "retry_seconds": 37}),
        ((403, {"x-ratelimit-remaining": "0", "x-ratelimit-reset": "1"}, ""), {"status": "FAILED", "retry_seconds": 1}),
        ((500, {}, ""), {"status": "FAILED", "http_status": 500}),
        ((302, {"location": "/elsewhere"}, ""), {"status": "FAILED", "http_status": 302}),
        (
            (301, {"location": "/renamed"}, ""),
            {"status": "FAILED", "note": "301: the repository was moved; change its URL"},
        ),
    ],
)
def test_a_refused_report_keeps_the_time_that_the_provider_names(
    provider: GitProvider, answer: tuple[int, dict[str, str], str], expected: dict[str, Any]
) -> None:
    provider.answers.append(answer)
    (result,) = send(provider, STATUS)
    assert {name: result.get(name) for name in expected} == expected
    assert ("retry_seconds" in result) == ("retry_seconds" in expected)
    assert len(provider.requests) == 1


@pytest.mark.parametrize(
    ("name", "path", "reaction"),
    [
        ("github", "/api/v3/repos/Infra/edge/issues/comments/5/reactions", {"content": "confused"}),
        ("gitea", "/api/v1/repos/Infra/edge/issues/comments/5/reactions", {"content": "confused"}),
        ("gitlab", "/api/v4/projects/Infra%2Fedge/merge_requests/7/notes/5/award_emoji", {"name": "confused"}),
    ],
)
def test_a_command_is_acknowledged_and_answered_once(
    provider: GitProvider, name: str, path: str, reaction: dict[str, str]
) -> None:
    answer = {
        "kind": "answer", "connection": ORG, "provider": name, "base_url": None, "id": 3, "number": 7, "comment_id": 5,
        "reaction": "confused", "answer": '"deploy" is not a command.',
    }  # fmt: skip
    results = send(provider, answer, answer, {**answer, "id": 4, "answer": None})
    assert [each["status"] for each in results] == ["DELIVERED"] * 3
    assert (provider.requests[0].path, provider.requests[0].body) == (path, reaction)
    ((_, text),) = provider.comments.items()
    assert text == '<!-- runyard answer 3 -->\n"deploy" is not a command.'
    provider.answers.append((404, {}, "{}"))
    assert send(provider, {**answer, "id": 6})[0]["status"] == "DELIVERED", "the comment was deleted meanwhile"
    assert len(provider.comments) == 1


TOKENS = """
    import { generateKeyPairSync } from "node:crypto";
    import { installationToken } from "@functions/_shared/github_app.ts";
    const key = () => generateKeyPairSync("rsa", { modulusLength: 2048 }).privateKey
      .export({ type: "pkcs1", format: "pem" });
    const which = { api_url: %s, number: 1, installation: 2, repository: "edge" };
    const [own, other] = [key(), key()];
    const given = [];
    for (const [org, pem] of [["a", own], ["a", own], ["b", own], ["a", other], ["b", "not a key"]]) {
      given.push(await installationToken(org, which, pem, {}).then(({ token }) => token, () => null));
    }
    console.log(JSON.stringify(given));
"""


def test_a_token_of_an_app_is_kept_for_its_organisation_and_its_key(provider: GitProvider) -> None:
    provider.answers += [(201, {}, json.dumps({"token": f"t{n}", "expires_at": "x"})) for n in range(4)]
    assert deno(provider, TOKENS % json.dumps(provider.url)) == ["t0", "t0", "t1", "t2", None]


AS_CALLER = """
    import { callAs } from "@functions/_shared/calling.ts";
    Deno.env.set("SUPABASE_URL", %s);
    Deno.env.set("SUPABASE_PUBLISHABLE_KEY", "a key");
    console.log(JSON.stringify((await callAs("a token", "my_organizations", { a: 1 })).status));
"""


def test_a_call_of_the_project_follows_no_redirect(provider: GitProvider) -> None:
    provider.answers.append((307, {"location": f"{provider.url}/elsewhere"}, "{}"))
    assert deno(provider, AS_CALLER % json.dumps(provider.url)) == 307
    assert [each.path for each in provider.requests] == ["/rest/v1/rpc/my_organizations"]


def test_open_pull_requests_are_listed_and_known_ones_that_closed_are_read(provider: GitProvider) -> None:
    there = {"sha": SHA, "ref": "feature", "repo": {"id": 1}}
    shared = {"title": "x", "draft": False, "base": {"ref": "main", "repo": {"id": 1}}, "user": {"login": "ann"}}
    provider.pulls = [{"number": 7, "state": "open", "head": there, **shared}]
    closed = {"number": 5, "state": "closed", "merged": True, "merge_commit_sha": "b" * 40, "head": there, **shared}
    wanted = {"kind": "pulls", "connection": ORG, "provider": "github", "base_url": None, "known": [5, 7]}
    provider.answers += [(200, {}, json.dumps(provider.pulls)), (200, {}, json.dumps(closed))]
    (result,) = send(provider, wanted)
    shown = [(each["number"], each["is_open"], each["author"], each.get("merge_commit")) for each in result["pulls"]]
    assert shown == [(7, True, "ann", None), (5, False, "ann", "b" * 40)]
    provider.pulls = [
        {
            "iid": 3, "state": "opened", "title": "x", "target_branch": "main", "source_branch": "f", "sha": SHA,
            "source_project_id": 1, "target_project_id": 1, "author": {"username": "ann"},
        }
    ]  # fmt: skip
    (result,) = send(provider, {**wanted, "provider": "gitlab", "known": []})
    assert [(each["number"], each["head_commit"], each["is_fork"]) for each in result["pulls"]] == [(3, SHA, False)]


def test_a_status_that_gitlab_has_already_is_delivered(provider: GitProvider) -> None:
    provider.answers.append((400, {}, '{"message": "Cannot transition status via :enqueue from :pending"}'))
    assert send(provider, {**STATUS, "provider": "gitlab"})[0]["status"] == "DELIVERED"


def test_a_real_gitea_shows_the_status_and_one_comment(real_gitea: RealGitea) -> None:
    there = GitProvider(real_gitea.url)
    token = real_gitea.http.headers["authorization"].removeprefix("token ")
    made = real_gitea.call("POST", "user/repos", name=f"r{uuid.uuid4().hex[:8]}", auto_init=True, default_branch="main")
    repository = f"repos/{made['full_name']}"
    change = {"content": base64.b64encode(b"x").decode(), "message": "A change", "new_branch": "feature"}
    commit_sha = real_gitea.call("POST", f"{repository}/contents/x", **change)["commit"]["sha"]
    number = real_gitea.call("POST", f"{repository}/pulls", head="feature", base="main", title="x")["number"]
    where = {"url": made["clone_url"], "commit": commit_sha}
    status, comment = {**STATUS, **where}, {**COMMENT, **where, "number": number}
    results = send(there, {**status, "state": "pending"}, status, comment, token=token)
    assert [each["http_status"] for each in results] == [201, 201, 201], results
    shown = real_gitea.call("GET", f"{repository}/commits/{commit_sha}/status")
    assert (shown["state"], [each["context"] for each in shown["statuses"]]) == ("failure", ["runyard"])
    known = {**comment, "comment_id": results[2]["comment_id"], "description": "2 modules"}
    assert [each["comment_id"] for each in send(there, known, {**known, "comment_id": None}, token=token)] == [
        known["comment_id"],
        known["comment_id"],
    ]
    (text,) = real_gitea.call("GET", f"{repository}/issues/{number}/comments")
    assert "2 modules" in text["body"]
    about = {"connection": ORG, "provider": "gitea", "base_url": None, "url": made["clone_url"], "number": number}
    answer = {"kind": "answer", "id": 3, "comment_id": text["id"], "reaction": "+1", "answer": "No."}
    done, listed = send(there, {**about, **answer}, {**about, "kind": "pulls", "known": []}, token=token)
    assert (done["http_status"], [each["number"] for each in listed["pulls"]]) == (201, [number])
    assert (listed["pulls"][0]["head_commit"], listed["pulls"][0]["is_fork"]) == (commit_sha, False)
    reactions = real_gitea.call("GET", f"{repository}/issues/comments/{text['id']}/reactions")
    assert [each["content"] for each in reactions] == ["+1"]
    _, said = real_gitea.call("GET", f"{repository}/issues/{number}/comments")
    real_gitea.call("DELETE", f"{repository}/issues/comments/{said['id']}")
    real_gitea.call("DELETE", f"{repository}/issues/comments/{text['id']}")
    gone, again = send(there, known, comment, token=token)
    assert (gone["status"], gone["comment_id"]) == ("FAILED", None)
    assert [each["id"] for each in real_gitea.call("GET", f"{repository}/issues/{number}/comments")] == [
        again["comment_id"]
    ]


class Loop:
    """The database, the function and the provider, with one sender."""

    def __init__(self, world: World, provider: GitProvider) -> None:
        self.provider = provider
        self.site: Site = open_site(world, world.organization())
        _, org, self.runner, self.connection = self.site
        token = deno(provider, SEAL % (json.dumps(org.id), json.dumps(TOKEN)))
        spec = {"token": token, "base_url": f"{provider.url}/api/v1"}
        org.owner.call("update_git_connection", p_connection=self.connection, p_spec=spec)
        first_reading(self.site)

    def turn(self) -> list[dict[str, Any]]:
        """Send what may be sent now; the pause between two reports is skipped, one that a provider asked for is not."""
        world = self.site[0]
        world.owner.connection.execute(
            "update private.git_secrets set next_report_at = now() where next_report_at < now() + interval '1 minute'"
        )
        messages = world.service.call("lease_deliveries", p_limit=20)
        if not messages:
            return []
        results: list[dict[str, Any]] = deno(self.provider, SEND % (json.dumps(messages), "null"))
        for message, result in zip(messages, results, strict=True):
            ids = {"p_delivery": message["id"], "p_lease": message["lease"]}
            world.service.call("finish_delivery", **ids, p_result=result)
        return results

    def settle(self) -> None:
        """Send until nothing may be sent."""
        while self.turn():
            pass


def test_a_pull_request_is_reported_from_its_announcement_to_its_result(
    database: Database, provider: GitProvider
) -> None:
    loop = Loop(World.open(database), provider)
    announce(loop.site, 5)
    provider.answers.append((429, {"retry-after": "3000"}, ""))
    assert [each["http_status"] for each in loop.turn()] == [429]
    (plan,) = merged(loop.site, 5, dns="d1", vpc="v2")
    assert loop.turn() == [], "the provider named a time"
    loop.site[0].owner.connection.execute("update private.git_secrets set next_report_at = now()")
    loop.site[0].owner.connection.execute("update public.deliveries set next_at = now()")
    loop.settle()
    statuses = [each.body["state"] for each in provider.requests if "/statuses/" in each.path]
    assert statuses == ["pending", "pending"], "one that was refused, one for all that happened since"
    ((number, text),) = provider.comments.items()
    assert "| net/vpc | 0 | 0 | 0 | planning |" in text
    del provider.comments[number]
    loop.runner.finish(plan, p_plan_summary={"has_changes": True, "create": 3})
    # Created again a moment later: the next write of the same connection waits.
    wait_until(lambda: loop.settle() or provider.comments, timeout_seconds=300, every_seconds=0.2)
    ((_, text),) = provider.comments.items()
    assert "| net/vpc | 3 | 0 | 0 | planned |" in text
    last = [each for each in provider.requests if "/statuses/" in each.path][-1]
    assert (last.path, last.body["state"], last.body["description"]) == (
        f"/api/v1/repos/infra/edge/statuses/{commit(5)}",
        "success",
        "1 module: 3 to add, 0 to change, 0 to destroy",
    )
