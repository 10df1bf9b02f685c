"""Redacted plans, and the job that runs rules over those of the last days."""

import asyncio
import base64
import gzip
import json
import os
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from worker.attempt.workspace import Workspace
from worker.children.users import COOKIE_VARIABLE
from worker.engines.redacted_plan import REDACTED_ARTIFACT, redacted_plan
from worker.engines.unclear import unclear, unclear_reads
from worker.errors import JobFailed
from worker.steps.check_command import CheckCommand
from worker.steps.policies import HOW, MISSING, Rules, find_opa, is_command, needs_cost

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
    work = await _next(space, [])
    tested, errors = await _prepare(space, work["files"]), 0
    while work["plans"]:
        found = []
        for each in work["plans"]:
            verdict = await tested.check(each)
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


async def _prepare(space: Workspace, files: Mapping[str, str]) -> "_Tested":
    if is_command(files):
        return _Tested(files, CheckCommand(space, files), frozenset())
    opa = await find_opa(space)
    if opa is None:
        raise JobFailed(MISSING, code="engine_missing", hint=HOW)
    rules = Rules(space, opa, files)
    return _Tested(files, rules, await rules.names())


@dataclass(frozen=True)
class _Tested:
    """A set, and the keys that it reads: a plan that lacks one of them has not passed."""

    files: Mapping[str, str]
    set: Rules | CheckCommand
    names: frozenset[str]

    async def check(self, given: Mapping[str, Any]) -> dict[str, Any]:
        body = gzip.decompress(base64.b64decode(given["body_base64"]))
        plan = json.loads(body)
        lacking = self._lacking(plan, given["run"])
        if isinstance(self.set, CheckCommand) and lacking:
            return {"verdict": "unclear", "messages": lacking}
        changes = plan.get("resource_changes") or []
        found = await self.set.check(body, given["run"], [str(each.get("address") or "") for each in changes])
        if found["verdict"] in ("passed", "warned") and lacking:
            return {"verdict": "unclear", "messages": [*found["messages"], *lacking]}
        return found

    def _lacking(self, plan: dict[str, Any], run: Mapping[str, Any]) -> list[dict[str, Any]]:
        if isinstance(self.set, CheckCommand):
            return (
                [unclear("The command reads the module's code, which a test has not.")] if self.set.reads_code else []
            )
        free = needs_cost(self.files, run)
        costs = [unclear("The rules read run.cost, and no command left the cost of this plan.")] if free else []
        return [*costs, *unclear_reads(plan, self.names)]
