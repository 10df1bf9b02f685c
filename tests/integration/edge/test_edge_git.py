"""Deliveries of git providers: only a right signature is accepted, each delivery counts once, and the answer is quick."""

import contextlib
import json
import uuid
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from http.client import HTTPConnection
from typing import Any
from urllib.parse import urlsplit

import httpx
import psycopg
import pytest

from tests.integration.edge.conftest import Edge
from tests.integration.edge.people import Person
from tests.support import webhooks

URL = "https://git.example.com/infra/edge.git"
SECRET = "a secret of the test"
BODY = webhooks.push_body("main", "a" * 40)
Sign = Callable[..., dict[str, str]]


def forgejo(secret: str, body: bytes, event: str = "push", delivery: str = "") -> dict[str, str]:
    return webhooks.gitea(secret, body, event, delivery, name="forgejo")


SENDERS: dict[str, tuple[str, Sign]] = {
    "github": ("github", webhooks.github),
    "gitea": ("gitea", webhooks.gitea),
    "forgejo": ("gitea", forgejo),
    "gitlab": ("gitlab", webhooks.gitlab),
    "signed gitlab": ("gitlab", webhooks.standard),
    "generic": ("generic", webhooks.standard),
}


class Connected:
    """A connection, and what it takes to send to it."""

    def __init__(self, edge: Edge, person: Person, provider: str, secret: str = SECRET) -> None:
        self.edge, self.person, self.secret = edge, person, secret
        # Secrets are sealed a few times a minute for one address, and all tests of a process have the same.
        address = {"x-forwarded-for": f"2001:db8::{uuid.uuid4().hex[:4]}"}
        wanted = {"org": person.org_id, "channel": "webhook", "secret": secret}
        sealed = edge.post("notify", wanted, person.token, **address)
        spec = {"provider": provider, "url": URL, "webhook_secret": sealed.json()["secret"]}
        self.id = person.rpc("connect_repository", p_org=person.org_id, p_spec=spec)["id"]

    def send(self, body: bytes, headers: dict[str, str], to: str = "") -> httpx.Response:
        return self.edge.http.post(f"{self.edge.url}/git/{to or self.id}", content=body, headers=headers)

    def deliveries(self) -> list[dict[str, Any]]:
        rows: list[dict[str, Any]] = self.person.rpc("list_git_deliveries", p_org=self.person.org_id)
        return rows


@pytest.mark.parametrize("sender", SENDERS)
def test_a_signed_push_is_written_down_and_answered(edge: Edge, person: Person, sender: str) -> None:
    provider, sign = SENDERS[sender]
    there = Connected(edge, person, provider)
    answer = there.send(BODY, sign(SECRET, BODY, delivery="once"))
    assert (answer.status_code, answer.json()["verdict"]) == (202, "NOTHING"), answer.text
    (row,) = there.deliveries()
    expected = ("push", "refs/heads/main", "once")
    assert (row["event"], row["ref"], row["delivery_id"]) == expected
    if provider != "generic":
        assert (row["after_commit"], row["sender"]) == ("a" * 40, "somebody")


@pytest.mark.parametrize("sender", SENDERS)
def test_a_wrong_signature_is_refused_and_leaves_no_delivery(edge: Edge, person: Person, sender: str) -> None:
    provider, sign = SENDERS[sender]
    there = Connected(edge, person, provider)
    assert there.send(BODY, sign("another secret", BODY)).status_code == 401
    assert there.send(BODY, {"content-type": "application/json"}).status_code == 401
    if provider != "gitlab" or sender == "signed gitlab":
        assert there.send(BODY + b" ", sign(SECRET, BODY)).status_code == 401
    assert there.deliveries() == []
    (connection,) = person.rpc("list_git_connections", p_org=person.org_id)
    assert connection["refused_at"] is not None


def test_a_valid_weaker_header_does_not_replace_an_invalid_stronger_one(edge: Edge, person: Person) -> None:
    gitea = Connected(edge, person, "gitea")
    wrong = {**webhooks.gitea(SECRET, BODY), "x-forgejo-signature": "0" * 64}
    assert gitea.send(BODY, wrong).status_code == 401
    other = Person(person.stack)
    gitlab = Connected(edge, other, "gitlab")
    unsigned = {**webhooks.gitlab(SECRET, BODY), "webhook-signature": "v1,AAAA"}
    assert gitlab.send(BODY, unsigned).status_code == 401


@pytest.mark.parametrize("age_seconds", [3600, -3600])
def test_a_signed_time_that_is_far_away_is_refused(edge: Edge, person: Person, age_seconds: int) -> None:
    there = Connected(edge, person, "generic")
    assert there.send(BODY, webhooks.standard(SECRET, BODY, age_seconds=age_seconds)).status_code == 401


def test_a_secret_of_standard_webhooks_is_read_as_base64(edge: Edge, person: Person) -> None:
    secret = "whsec_MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY="
    there = Connected(edge, person, "generic", secret)
    body = json.dumps({"source_url": URL, "ref": "main", "commit": "b" * 40}).encode()
    assert there.send(body, webhooks.standard(secret, body)).status_code == 202
    assert there.deliveries()[0]["ref"] == "refs/heads/main"


def test_a_repeated_delivery_gets_the_first_verdict(edge: Edge, person: Person) -> None:
    there = Connected(edge, person, "github")
    headers = webhooks.github(SECRET, BODY, delivery="again")
    with ThreadPoolExecutor(4) as pool:
        answers = list(pool.map(lambda _: there.send(BODY, headers), range(4)))
    assert sorted(answer.status_code for answer in answers) == [200, 200, 200, 202]
    assert {answer.json()["verdict"] for answer in answers} <= {"NOTHING", "PENDING"}
    assert len(there.deliveries()) == 1


@pytest.mark.parametrize("name", ["5b0a7a52-0000-4000-8000-000000000001", "nobody", ""])
def test_an_unknown_connection_is_not_found(edge: Edge, person: Person, name: str) -> None:
    there = Connected(edge, person, "github")
    answer = there.edge.http.post(f"{edge.url}/git/{name}", content=BODY, headers=webhooks.github(SECRET, BODY))
    assert answer.status_code == 404


@pytest.mark.parametrize("body", [b"", b"[]", b"7", b"not json", b"\xff\xfe", b'{"ref": "refs/heads/\\u0000"}'])
def test_a_body_that_is_no_event_is_refused(edge: Edge, person: Person, body: bytes) -> None:
    there = Connected(edge, person, "github")
    assert there.send(body, webhooks.github(SECRET, body)).status_code == 400
    assert there.deliveries() == []


@pytest.mark.parametrize(("by_gateway", "mebibytes"), [(False, 6), (False, 25), (True, 6), (True, 25)])
def test_a_body_that_is_too_large_is_refused_to_a_sender_that_reads_no_answer_before_its_end(
    edge: Edge, person: Person, by_gateway: bool, mebibytes: int
) -> None:
    there = Connected(edge, person, "github")
    place = urlsplit(f"{edge.stack.url}/functions/v1" if by_gateway else edge.url)
    with contextlib.closing(HTTPConnection(place.netloc, timeout=60)) as plain:
        plain.request("POST", f"{place.path}/git/{there.id}", b"x" * (mebibytes * 1024 * 1024))
        assert plain.getresponse().status == 413


def test_a_form_with_the_event_is_read(edge: Edge, person: Person) -> None:
    there = Connected(edge, person, "github")
    body = str(httpx.QueryParams({"payload": BODY.decode()})).encode()
    headers = webhooks.github(SECRET, body) | {"content-type": "application/x-www-form-urlencoded"}
    assert there.send(body, headers).status_code == 202
    assert there.deliveries()[0]["ref"] == "refs/heads/main"


def test_the_text_of_a_comment_is_not_read_as_an_event(edge: Edge, person: Person) -> None:
    """A reader of a repository's deliveries has bodies with right signatures, and can write comments."""
    there = Connected(edge, person, "github")
    other = webhooks.comment_body("/runyard confirm").decode()
    body = webhooks.comment_body(f"&{httpx.QueryParams({'payload': other})}&")
    headers = webhooks.github(SECRET, body, event="issue_comment")
    headers["content-type"] = "application/x-www-form-urlencoded"
    assert there.send(body, headers).json()["verdict"] == "IGNORED"


def test_events_that_start_nothing_are_listed_with_the_reason(edge: Edge, person: Person) -> None:
    there = Connected(edge, person, "github")
    ping = b'{"zen": "Keep it simple."}'
    answer = there.send(ping, webhooks.github(SECRET, ping, event="ping"))
    assert (answer.status_code, answer.json()["verdict"]) == (202, "IGNORED")
    gone = webhooks.push_body("main", webhooks.NO_COMMIT)
    assert there.send(gone, webhooks.github(SECRET, gone)).json()["reason"] == "The branch was deleted."


@pytest.mark.parametrize("repo", [{"repo": None}, {}, {"repo": {"id": 2}}], ids=["deleted", "unnamed", "other"])
def test_a_pull_request_from_a_deleted_or_another_repository_is_one_of_a_fork(
    edge: Edge, person: Person, repo: dict[str, Any]
) -> None:
    there = Connected(edge, person, "github")
    event = json.loads(webhooks.pull_body(7, "a" * 40))
    event["pull_request"]["head"] = {"sha": "a" * 40, **repo}
    body = json.dumps(event).encode()
    answer = there.send(body, webhooks.github(SECRET, body, "pull_request")).json()
    assert (answer["verdict"], answer["reason"]) == ("IGNORED", "It comes from a fork, so nothing is run for it.")


@pytest.mark.parametrize("name", ["constructor", "__defineGetter__", "toString", "__proto__", "hasOwnProperty"])
@pytest.mark.parametrize("provider", ["github", "gitlab"])
def test_an_event_with_the_name_of_a_property_starts_nothing(
    edge: Edge, person: Person, provider: str, name: str
) -> None:
    there = Connected(edge, person, provider)
    comment = {"id": 5, "number": 7, "verb": "help", "argument": "", "sender_id": "11"}
    body = json.dumps({"object_kind": name, "event": "comment", "sender": "ann", "comment": comment}).encode()
    _, sign = SENDERS[provider]
    answer = there.send(body, sign(SECRET, body, name))
    assert (answer.status_code, answer.json()["verdict"]) == (202, "IGNORED"), answer.text
    assert there.deliveries()[0]["event"] == name


@pytest.mark.parametrize("sender", SENDERS)
def test_the_same_body_with_another_id_is_the_same_delivery_where_the_id_is_not_signed(
    edge: Edge, person: Person, sender: str
) -> None:
    provider, sign = SENDERS[sender]
    there = Connected(edge, person, provider)
    answers = [there.send(BODY, sign(SECRET, BODY, delivery=name)) for name in ("one", "two")]
    is_signed = sign is webhooks.standard
    assert [answer.status_code for answer in answers] == [202, 202 if is_signed else 200]
    assert len({answer.json()["verdict"] for answer in answers}) == 1
    other = webhooks.push_body("main", "b" * 40)
    assert there.send(other, sign(SECRET, other)).status_code == 202
    assert there.send(BODY, sign(SECRET, BODY, delivery="three")).status_code == 202, "the branch was led back"


NESTED = ["[" * 20_000, '{"a":' * 20_000, "[" * 20_000 + "]" * 20_000, '{"ref":' + "[" * 20_000 + "]" * 20_000 + "}"]


@pytest.mark.parametrize("sender", SENDERS)
def test_deeply_nested_bodies_are_refused_or_ignored(edge: Edge, person: Person, sender: str) -> None:
    provider, sign = SENDERS[sender]
    there = Connected(edge, person, provider)
    deep = "[" * 20_000 + "]" * 20_000
    events = (webhooks.push_body("main", "a" * 40), webhooks.pull_body(7, "a" * 40), webhooks.comment_body("/runyard"))
    fields = {name for event in events for name in json.loads(event)} | {"commits", "pusher", "payload"}
    bodies = [each.encode() for each in NESTED]
    for name in sorted(fields):
        for event in events:
            whole = json.dumps({**json.loads(event), name: "DEEP"})
            bodies.append(whole.replace('"DEEP"', deep).encode())
    statuses = {
        there.send(body, sign(SECRET, body, event)).status_code
        for body in bodies for event in ("push", "pull_request", "issue_comment")
    }  # fmt: skip
    assert statuses <= {200, 202, 400}, statuses


def changes_of(there: Connected) -> dict[str, set[str]]:
    """The people of each change of a connection."""
    query = "select change, array_agg(identity) from private.git_authors where connection_id = %s group by change"
    with psycopg.connect(there.person.stack.db_url) as connection:
        return {change: set(people) for change, people in connection.execute(query, [there.id]).fetchall()}


ANN = {"name": "Ann", "email": "Ann@example.com", "username": "Ann"}
BOB = {"name": "Bob", "email": "5+bob@users.noreply.github.com"}
EVE = "Change\n\nCo-authored-by: Eve <eve@example.com>"
COMMITS = [
    {"author": ANN, "committer": {"name": "GitHub", "email": "noreply@github.com"}},
    {"author": BOB, "message": EVE},
]
NAMED = {"login:ann", "email:ann@example.com", "email:noreply@github.com", "login:bob", "id:5",
         "email:5+bob@users.noreply.github.com", "email:eve@example.com"}  # fmt: skip


@pytest.mark.parametrize(
    ("provider", "more", "expected"),
    [
        ("github", {"sender": {"login": "Joe", "id": 9}, "pusher": {"name": "joe", "email": "joe@example.com"}},
         {"login:joe", "id:9", "email:joe@example.com"}),
        ("gitea", {"sender": {"login": "joe", "id": 9}, "pusher": {"login": "kim", "id": 10}},
         {"login:joe", "id:9", "login:kim", "id:10"}),
        ("gitlab", {"object_kind": "push", "user_username": "joe", "user_id": 9, "user_email": "joe@example.com"},
         {"login:joe", "id:9", "email:joe@example.com"}),
    ],
)  # fmt: skip
def test_everybody_who_pushed_or_is_named_in_a_commit_is_noted(
    edge: Edge, person: Person, provider: str, more: dict[str, Any], expected: set[str]
) -> None:
    there = Connected(edge, person, provider)
    body = json.dumps({"ref": "refs/heads/main", "after": "a" * 40, "commits": COMMITS, **more}).encode()
    assert there.send(body, SENDERS[provider][1](SECRET, body)).status_code == 202
    assert changes_of(there) == {"a" * 40: NAMED | expected}
    accounts = {("joe", "9")} | ({("kim", "10")} if "login:kim" in expected else set())
    with psycopg.connect(person.stack.db_url) as connection:
        query = "select login, account_id from private.git_accounts where org_id = %s"
        assert set(connection.execute(query, [person.org_id]).fetchall()) == accounts


def test_who_opens_a_pull_request_and_pushes_to_it_is_noted_and_who_labels_it_is_not(
    edge: Edge, person: Person
) -> None:
    there = Connected(edge, person, "github")
    for action, login in (("labeled", "bot"), ("opened", "ann"), ("synchronize", "joe"), ("closed", "kim")):
        event = json.loads(webhooks.pull_body(7, "a" * 40, action=action, user={"login": "Ann", "id": 11}))
        body = json.dumps({**event, "sender": {"login": login}}).encode()
        there.send(body, webhooks.github(SECRET, body, "pull_request"))
    assert changes_of(there) == {"#7": {"login:ann", "id:11", "login:joe"}}


def test_a_push_to_a_branch_with_a_long_name_is_one_to_its_pull_request(edge: Edge, person: Person) -> None:
    there, branch = Connected(edge, person, "github"), "x" * 230
    pull = json.loads(webhooks.pull_body(7, "a" * 40))
    pull["pull_request"]["head"]["ref"] = branch
    sent = (
        ("pull_request", json.dumps(pull).encode()),
        ("push", webhooks.push_body(branch, "b" * 40)),
    )
    for event, body in sent:
        there.send(body, webhooks.github(SECRET, body, event))
    assert "login:somebody" in changes_of(there)["#7"]


def test_the_author_and_the_pushers_of_a_merge_request_are_noted(edge: Edge, person: Person) -> None:
    there = Connected(edge, person, "gitlab")
    what = {
        "iid": 7, "target_branch": "main", "source_branch": "f", "state": "opened", "author_id": 11,
        "source_project_id": 1, "target_project_id": 1, "last_commit": {"id": "a" * 40, "author": BOB},
    }  # fmt: skip
    for more, login in (({"action": "update", "oldrev": "b" * 40}, "joe"), ({"action": "approved"}, "kim")):
        body = json.dumps(
            {"object_kind": "merge_request", "object_attributes": what | more, "user": {"username": login}}
        ).encode()
        assert there.send(body, webhooks.gitlab(SECRET, body)).status_code == 202
    names = {"login:bob", "id:5", "email:5+bob@users.noreply.github.com"}
    assert changes_of(there) == {"#7": {"id:11", "login:joe"} | names}


def test_the_merge_commit_of_a_pull_request_is_noted(edge: Edge, person: Person) -> None:
    there = Connected(edge, person, "gitea")
    merge = {"state": "closed", "merged": True, "merge_commit_sha": "c" * 40}
    for more in ({"merge_commit_sha": "b" * 40}, merge):
        body = webhooks.pull_body(7, "a" * 40, **more)
        assert there.send(body, webhooks.gitea(SECRET, body, "pull_request")).status_code == 202
        expected = more["merge_commit_sha"] if more is merge else None
        answer = httpx.get(
            f"{person.stack.url}/rest/v1/pull_requests",
            params={"connection_id": f"eq.{there.id}", "select": "merge_commit,is_open"},
            headers=person.headers,
            timeout=60,
        )
        assert answer.json() == [{"merge_commit": expected, "is_open": more is not merge}]


@pytest.mark.parametrize(("provider", "sign"), [("github", webhooks.github), ("gitea", webhooks.gitea)])
def test_a_comment_on_a_pull_request_that_begins_with_the_mark_is_a_command(
    edge: Edge, person: Person, provider: str, sign: Sign
) -> None:
    there = Connected(edge, person, provider)
    for body, verdict in (
        (webhooks.comment_body("/runyard plan net/vpc\nThanks!"), "REFUSED"),
        (webhooks.comment_body("Please /runyard plan"), "IGNORED"),
        (webhooks.comment_body("/runyard plan", action="edited"), "IGNORED"),
        (webhooks.comment_body("/runyard plan", is_pull=False), "IGNORED"),
        (webhooks.comment_body("/runyard plan", created_at="2020-02-29T10:00:00Z"), "IGNORED"),
        (webhooks.comment_body("/runyard plan", created_at="not a time"), "REFUSED"),
    ):
        answer = there.send(body, sign(SECRET, body, event="issue_comment"))
        assert (answer.status_code, answer.json()["verdict"]) == (202, verdict), answer.text
    refusal = there.deliveries()[-1]
    assert (refusal["event"], refusal["pull_request"], refusal["sender"]) == ("comment", 7, "ann")
    assert "not linked" in refusal["reason"]


OWN = "<!-- runyard 5b0a7a52 -->\n**Runyard** at abc"


@pytest.mark.parametrize(
    ("provider", "sign", "event", "body"),
    [
        ("github", webhooks.github, "issue_comment", webhooks.comment_body(OWN)),
        ("github", webhooks.github, "issue_comment", webhooks.comment_body(OWN, action="edited")),
        ("gitea", webhooks.gitea, "pull_request_comment", webhooks.comment_body(OWN)),
        (
            "gitlab",
            webhooks.gitlab,
            "Note Hook",
            json.dumps({"object_kind": "note", "object_attributes": {"note": OWN}}),
        ),
        ("github", webhooks.github, "status", json.dumps({"context": "runyard", "state": "success"})),
    ],
)
def test_what_runyard_wrote_itself_is_no_delivery(
    edge: Edge, person: Person, provider: str, sign: Sign, event: str, body: bytes | str
) -> None:
    there = Connected(edge, person, provider)
    content = body.encode() if isinstance(body, str) else body
    answer = there.send(content, sign(SECRET, content, event=event))
    assert (answer.status_code, answer.json()["verdict"]) == (202, "IGNORED"), answer.text
    assert there.deliveries() == []
    others = content.replace(b"<!-- runyard", b"<!-- run").replace(b'"runyard"', b'"lint"')
    there.send(others, sign(SECRET, others, event=event))
    assert len(there.deliveries()) == 1


@pytest.mark.parametrize(("created", "verdict"), [("2020-02-29 10:00:00 UTC", "IGNORED"), ("", "REFUSED")])
def test_a_new_note_on_a_merge_request_is_a_command(edge: Edge, person: Person, created: str, verdict: str) -> None:
    there = Connected(edge, person, "gitlab")
    what = {"id": 5, "note": "/runyard help", "noteable_type": "MergeRequest", "action": "create"}
    what["created_at"] = created
    body = json.dumps(
        {
            "object_kind": "note",
            "object_attributes": what,
            "merge_request": {"iid": 7},
            "user": {"id": 1, "username": "ann"},
        }
    ).encode()
    assert there.send(body, webhooks.gitlab(SECRET, body, event="Note Hook")).json()["verdict"] == verdict
