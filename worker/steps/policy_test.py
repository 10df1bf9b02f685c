"""Redacted plans, and the job that runs rules over those of the last days."""

import asyncio
import base64
import gzip
import json
import os
from collections import Counter
from collections.abc import Mapping
from typing import Any

from worker.attempt.workspace import Workspace
from worker.children.orphans import COOKIE_VARIABLE
from worker.engines.redacted_plan import REDACTED_ARTIFACT, redacted_plan
from worker.errors import JobFailed
from worker.steps.policies import HOW, MISSING, Rules, find_opa

# Rules that cannot be evaluated for so many plans in a row will not be for the others.
MOST_ERRORS = 3
# Of one rule in one plan; a rule that finds more is read in the review of a plan.
MOST_OF_RULE = 10


async def keep_redacted(space: Workspace) -> None:
    """Keep the plan without its sensitive values, for later tests of policies."""
    if space.shown is None:
        return
    body = await asyncio.to_thread(redacted_plan, space.shown, space.log.redactor.redact)
    if body is not None:
        await space.context.server.put_artifact(space.ref, REDACTED_ARTIFACT, body)


async def run_policy_test(space: Workspace) -> None:
    """Test plan after plan; the server keeps each verdict, and names those that are left."""
    temporary = space.context.isolation.temporary(space.root) if space.context.isolation else space.root / "tmp"
    space.env = {"PATH": os.defpath, "TMPDIR": str(temporary), COOKIE_VARIABLE: space.cookie}
    opa = await find_opa(space)
    if opa is None:
        raise JobFailed(MISSING, code="engine_missing", hint=HOW)
    work = await _next(space, [])
    rules, errors = Rules(space, opa, work["files"]), 0
    while work["plans"]:
        found = []
        for each in work["plans"]:
            verdict = await _test(rules, each)
            found.append({"plan": each["plan"], **verdict, "messages": _few(verdict["messages"])})
            errors = errors + 1 if verdict["verdict"] == "error" else 0
            if errors == MOST_ERRORS:
                await _next(space, found)
                raise JobFailed(
                    verdict["messages"][0]["text"], code="policy_error", hint="Correct the rules. Then test them again."
                )
        work = await _next(space, found)
        space.say(f"Tested {work['done']} of {work['total']} plans.")


async def _next(space: Workspace, found: list[dict[str, Any]]) -> dict[str, Any]:
    arguments = {"p_job": space.job.id, "p_attempt": space.job.attempt, "p_found": found}
    answer: dict[str, Any] = await space.context.server.call("worker_policy_test", arguments)
    return answer


def _few(messages: list[dict[str, Any]]) -> list[dict[str, Any]]:
    seen: Counter[str] = Counter()
    kept = []
    for each in messages:
        seen[each["rule"]] += 1
        kept += [each] if seen[each["rule"]] <= MOST_OF_RULE else []
    return kept


async def _test(rules: Rules, given: Mapping[str, Any]) -> dict[str, Any]:
    plan = gzip.decompress(base64.b64decode(given["body_base64"]))
    changes = json.loads(plan).get("resource_changes") or []
    return await rules.check(plan, given["run"], [str(each.get("address") or "") for each in changes])
