"""The form in which the notify function sends a message: to a webhook, Slack, Teams and by mail."""

import json
import os
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from cryptography import x509

from stack.functions import find_deno
from stack.settings import PROJECT
from tests.support.certificates import self_signed
from tests.support.receiver import Receiver, run_receiver

FUNCTIONS = PROJECT / "supabase" / "functions"
DASHBOARD = "https://runyard.example.com"
ORG = "5b0a7a52-0000-4000-8000-000000000001"
FAILED: dict[str, Any] = {
    "id": 7, "lease": ORG, "org": ORG, "organization": "Example", "event": "job.failed", "event_id": "job_event:1",
    "title": "Plan of a/<b> & c failed", "body": {"job": {"id": 99, "number": 12}, "reason": "no <rights>"}, "at": "2030-01-31T02:00:00Z",
    "attempt": 1, "secret": None,
}  # fmt: skip
SEND = """
    import { seal } from "@notify/../_shared/sealing.ts";
    import { send } from "@notify/sending.ts";
    const { message, address } = %s;
    message.address = await seal(message.org, address);
    console.log(JSON.stringify(await send(message)));
"""


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    with run_receiver() as running:
        yield running


def send(
    receiver: Receiver, channel: str, address: str = "", variables: dict[str, str] | None = None, **more: Any
) -> Any:
    """Send a message in Deno, which may reach the receiver alone; returns how it went."""
    whole = {"message": {**FAILED, "channel": channel, **more}, "address": address or f"{receiver.url}/{channel}"}
    host = receiver.url.removeprefix("http://")
    done = subprocess.run(
        [
            str(find_deno()), "run", "--quiet", "--no-prompt", f"--config={FUNCTIONS / 'deno.json'}",
            f"--allow-read={FUNCTIONS}", "--allow-env", f"--allow-net={host}", "-",
        ],
        input=(SEND % json.dumps(whole)).replace("@notify", f"file://{FUNCTIONS}/notify"),
        env={
            "PATH": os.environ["PATH"], "HOME": os.environ["HOME"], "NOTIFICATIONS_KEY": "a key of the test",
            "SUPABASE_URL": "https://project.example.com", "RUNYARD_DASHBOARD_URL": f"{DASHBOARD}/",
            "RUNYARD_ALLOW_PRIVATE_RECEIVERS": "true", **(variables or {}),
        },
        cwd=FUNCTIONS, capture_output=True, text=True, timeout=300, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def body(receiver: Receiver) -> Any:
    (one,) = receiver.received
    return json.loads(one.body)


@pytest.mark.parametrize(
    ("about", "page"),
    [
        ({"job": {"id": 99, "number": 12}}, f"/o/{ORG}/jobs/12"),
        ({"runner": {"id": ORG}}, f"/o/{ORG}/runners/{ORG}"),
        ({"module": {"id": ORG, "path": "a/b c"}}, f"/o/{ORG}/modules?path=a%2Fb%20c"),
        ({"release": {"version": "2.0.0"}}, ""),
    ],
)
def test_a_webhook_links_to_the_page_of_its_subject(receiver: Receiver, about: dict[str, Any], page: str) -> None:
    assert send(receiver, "webhook", body=about)["status"] == "DELIVERED"
    assert (body(receiver)["url"], body(receiver)["data"]) == (DASHBOARD + page, about)


def test_slack_receives_text_in_which_a_jobs_own_text_is_escaped(receiver: Receiver) -> None:
    assert send(receiver, "slack")["status"] == "DELIVERED"
    lines = [
        "*Plan of a/&lt;b&gt; &amp; c failed*",
        "no &lt;rights&gt;",
        f"<{DASHBOARD}/o/{ORG}/jobs/12|Open>",
    ]
    assert body(receiver) == {"text": "\n".join(lines)}


HOSTILE = "<!channel> <@U1> @everyone [x](https://evil.example) <https://evil.example|Open>"


def test_slack_reads_no_mention_and_no_link_in_a_name(receiver: Receiver) -> None:
    assert send(receiver, "slack", title=HOSTILE, body={**FAILED["body"], "reason": HOSTILE})["status"] == "DELIVERED"
    text = body(receiver)["text"]
    assert re.findall(r"<[^>]*>", text) == [f"<{DASHBOARD}/o/{ORG}/jobs/12|Open>"]
    assert text.count("&lt;!channel&gt;") == 2


def test_a_webhook_and_a_mail_carry_a_name_as_it_is(receiver: Receiver) -> None:
    assert send(receiver, "webhook", title=HOSTILE)["status"] == "DELIVERED"
    assert (body(receiver)["title"], body(receiver)["url"]) == (HOSTILE, f"{DASHBOARD}/o/{ORG}/jobs/12")
    service = {"MAIL_API_KEY": "k", "MAIL_FROM": "runyard@example.com", "MAIL_API_URL": f"{receiver.url}/emails"}
    assert send(receiver, "mail", "oncall@example.org", service, title=HOSTILE)["status"] == "DELIVERED"
    mail = json.loads(receiver.received[-1].body)
    assert mail["text"].startswith(HOSTILE)
    assert "html" not in mail


def test_teams_gets_a_card_whose_text_is_not_markdown(receiver: Receiver) -> None:
    reason = "see [the fix](https://evil.example) ![](https://evil.example/pixel) **now**"
    assert send(receiver, "teams", body={**FAILED["body"], "reason": reason})["status"] == "DELIVERED"
    (attachment,) = body(receiver)["attachments"]
    card = attachment["content"]
    assert (attachment["contentType"], card["type"]) == ("application/vnd.microsoft.card.adaptive", "AdaptiveCard")
    assert {block["type"] for block in card["body"]} == {"RichTextBlock"}
    runs = [run for block in card["body"] for run in block["inlines"]]
    assert [(run["type"], run["text"]) for run in runs] == [("TextRun", FAILED["title"]), ("TextRun", reason)]
    assert [action["url"] for action in card["actions"]] == [f"{DASHBOARD}/o/{ORG}/jobs/12"]


def test_a_mail_is_sent_through_a_mail_service_and_kept_without_one(receiver: Receiver) -> None:
    assert send(receiver, "mail", "oncall@example.org")["status"] == "KEPT"
    assert receiver.received == []
    service = {"MAIL_API_KEY": "k", "MAIL_FROM": "runyard@example.com", "MAIL_API_URL": f"{receiver.url}/emails"}
    assert send(receiver, "mail", "oncall@example.org", service)["status"] == "DELIVERED"
    (one,) = receiver.received
    assert (one.path, one.headers["authorization"], one.headers["idempotency-key"]) == (
        "/emails",
        "Bearer k",
        "7-job_event:1",
    )
    mail = body(receiver)
    assert (mail["from"], mail["to"], mail["subject"]) == (
        "runyard@example.com",
        ["oncall@example.org"],
        FAILED["title"],
    )
    assert f"{DASHBOARD}/o/{ORG}/jobs/12" in mail["text"]


CONNECT = """
    import { sendTo } from "@shared/outgoing.ts";
    const signal = AbortSignal.timeout(60_000);
    const post = (url, ip) => sendTo({ url: new URL(url), ip: ip ?? undefined }, { method: "POST", body: "hello", signal })
      .then(async (answer) => `${answer.status} ${await answer.text()}`).catch((error) => error.message);
    console.log(JSON.stringify(await Promise.all(%s.map(([url, ip]) => post(url, ip)))));
"""


def test_a_message_is_sent_to_the_address_that_was_checked(tmp_path: Path) -> None:
    """The name is used for the certificate alone: nothing resolves it a second time."""
    certificate, key = self_signed(tmp_path, x509.DNSName("hooks.example.com"))
    with run_receiver(certificate, key) as receiver:
        port = receiver.url.rpartition(":")[2]
        tries = [
            (f"https://hooks.example.com:{port}/hook", "127.0.0.1"),
            (f"https://other.example.com:{port}/hook", "127.0.0.1"),
            (f"https://localhost:{port}/hook", "93.184.216.34"),
        ]
        arrived, other_name, other_address = connect(tries, certificate)
    assert arrived == "200 "
    assert "does not match certificate" in other_name
    assert 'Requires net access to "93.184.216.34' in other_address
    assert [each.path for each in receiver.received] == ["/hook"]


def test_an_answer_without_an_end_is_not_read_whole(tmp_path: Path) -> None:
    certificate, key = self_signed(tmp_path, x509.DNSName("hooks.example.com"))
    with run_receiver(certificate, key) as encrypted, run_receiver() as plain:
        encrypted.answer = plain.answer = b"x" * 17_000_000
        port = encrypted.url.rpartition(":")[2]
        checked = connect([(f"https://hooks.example.com:{port}/hook", "127.0.0.1")], certificate)
        unchecked = connect([(f"{plain.url}/hook", None)], certificate)
    assert [*checked, *unchecked] == ["the answer has more than 16777216 bytes"] * 2


def connect(tries: list[tuple[str, str | None]], certificate: Path) -> Any:
    """Run the requests in Deno, which may connect to this machine alone."""
    names = "NODE_USE_SYSTEM_CA,NODE_EXTRA_CA_CERTS,NODE_DEBUG,NODE_TLS_REJECT_UNAUTHORIZED,NODE_OPTIONS"
    done = subprocess.run(
        [
            str(find_deno()), "run", "--quiet", "--no-prompt", f"--config={FUNCTIONS / 'deno.json'}", "--allow-sys=ca",
            f"--allow-read={FUNCTIONS}", f"--allow-env={names}", "--allow-net=127.0.0.1", "-",
        ],
        input=(CONNECT % json.dumps(tries)).replace("@shared", f"file://{FUNCTIONS}/_shared"),
        env={"PATH": os.environ["PATH"], "HOME": os.environ["HOME"], "NODE_EXTRA_CA_CERTS": str(certificate)},
        cwd=FUNCTIONS, capture_output=True, text=True, timeout=300, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)
