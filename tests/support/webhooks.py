"""Webhooks as git providers send them: bodies that we wrote ourselves, signed with a connection's secret."""

import base64
import hashlib
import hmac
import json
import time
import uuid
from typing import Any

NO_COMMIT = "0" * 40


def push_body(branch: str, after: str, before: str = NO_COMMIT) -> bytes:
    """A push, in the fields that GitHub, Gitea and GitLab share, with those that differ beside them."""
    body = {
        "ref": f"refs/heads/{branch}", "before": before, "after": after, "object_kind": "push",
        "sender": {"login": "somebody"}, "user_username": "somebody", "repository": {"full_name": "infra/edge"},
    }  # fmt: skip
    return json.dumps(body).encode()


def pull_body(number: int, head: str, base: str = "main", *, action: str = "opened", **more: Any) -> bytes:
    """A pull request, in the shape of GitHub and Gitea."""
    pull = {
        "title": "A change", "state": "open", "draft": False, "head": {"sha": head, "repo": {"id": 1}},
        "base": {"ref": base, "repo": {"id": 1}}, **more,
    }  # fmt: skip
    body = {"action": action, "number": number, "pull_request": pull, "sender": {"login": "somebody"}}
    return json.dumps(body).encode()


def queue_body(number: int, base: str, head: str, *, action: str = "checks_requested", reason: str = "") -> bytes:
    """An entry of GitHub's merge queue for main."""
    group = {
        "head_sha": head, "head_ref": f"refs/heads/gh-readonly-queue/main/pr-{number}-{base}",
        "base_sha": base, "base_ref": "refs/heads/main",
    }  # fmt: skip
    ended = {"reason": reason} if reason else {}
    return json.dumps({"action": action, "merge_group": group, "sender": {"login": "somebody"}, **ended}).encode()


def comment_body(text: str, *, action: str = "created", is_pull: bool = True, comment: int = 0, **more: str) -> bytes:
    """A comment of ann on pull request 7, in the shape of GitHub and Gitea."""
    issue = {"number": 7, "pull_request": {"url": "x"} if is_pull else None}
    said = {"id": comment or uuid.uuid4().int % 10**9, "body": text, "user": {"id": 11, "login": "ann"}, **more}
    body = {"action": action, "issue": issue, "comment": said, "is_pull": is_pull, "sender": {"login": "ann"}}
    return json.dumps(body).encode()


def _hex(secret: str, body: bytes) -> str:
    return hmac.new(secret.encode(), body, hashlib.sha256).hexdigest()


def github(secret: str, body: bytes, event: str = "push", delivery: str = "") -> dict[str, str]:
    """The headers of GitHub."""
    return {
        "x-hub-signature-256": f"sha256={_hex(secret, body)}", "x-github-event": event,
        "x-github-delivery": delivery or str(uuid.uuid4()), "content-type": "application/json",
    }  # fmt: skip


def gitea(secret: str, body: bytes, event: str = "push", delivery: str = "", name: str = "gitea") -> dict[str, str]:
    """The headers of Gitea, or with another name of Forgejo."""
    return {
        f"x-{name}-signature": _hex(secret, body), "x-gitea-event": event,
        f"x-{name}-delivery": delivery or str(uuid.uuid4()), "content-type": "application/json",
    }  # fmt: skip


def gitlab(secret: str, _: bytes, event: str = "push", delivery: str = "") -> dict[str, str]:
    """The headers of GitLab with the token that it always had."""
    names = {"x-gitlab-token": secret, "x-gitlab-event": event, "content-type": "application/json"}
    return {**names, "idempotency-key": delivery or str(uuid.uuid4())}


def standard(
    secret: str, body: bytes, event: str = "push", delivery: str = "", *, age_seconds: int = 0
) -> dict[str, str]:
    """The headers of Standard Webhooks, as generic senders and GitLab's signed webhooks have them."""
    identity, at = delivery or f"msg_{uuid.uuid4().hex}", str(int(time.time()) - age_seconds)
    key = base64.b64decode(secret.removeprefix("whsec_")) if secret.startswith("whsec_") else secret.encode()
    signature = base64.b64encode(hmac.new(key, f"{identity}.{at}.".encode() + body, hashlib.sha256).digest()).decode()
    return {
        "webhook-id": identity, "webhook-timestamp": at, "webhook-signature": f"v1,bm90IHRoaXM= v1,{signature}",
        "x-gitlab-event": event, "content-type": "application/json",
    }  # fmt: skip
