"""The step that checks a plan with its policy sets, before anything of it is handed in."""

import asyncio
import shutil
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from worker.attempt.workspace import Workspace
from worker.children.orphans import COOKIE_VARIABLE
from worker.engines.cache import has_its_checksum
from worker.engines.policy import (
    EVALUATION_SECONDS,
    QUERY,
    failed_set,
    policy_input,
    pure_capabilities,
    read_verdict,
)
from worker.enums import OPA
from worker.errors import EngineKilled, JobFailed
from worker.files.sealed import sealed
from worker.steps.engine import provide

_EITHER = tuple(range(256))
_MISSING = "OPA is not on this runner, so its plans cannot be checked."
_HOW = "The runner's operator runs `runyard engines ensure opa`, or sets Engine.FetchCommand."
_KEPT = ("PATH", "HOME", "TMPDIR", COOKIE_VARIABLE)


async def check_policies(space: Workspace) -> None:
    """Evaluate every set and record the verdicts; the server decides whether the job continues."""
    given = await space.context.server.policies(space.ref)
    # Rules see the plan, and no variable of the job.
    before, space.env = space.env, {name: value for name, value in space.env.items() if name in _KEPT}
    try:
        found = await _evaluate_all(space, given)
    finally:
        space.env = before
    for policy, check in zip(given["sets"], found, strict=True):
        space.say(f"{policy['name']} ({policy['level']}): {check['verdict']}")
        for each in check["messages"]:
            hint = f" {each['hint']}" if each["hint"] else ""
            space.say(f"  {each['rule'] or 'error'}: {each['text']}{hint}")
    checks = [{"id": policy["id"], **check} for policy, check in zip(given["sets"], found, strict=True)]
    reply = await space.context.server.record_checks(space.ref, checks)
    if reply.get("is_refused"):
        raise JobFailed(
            str(reply["problem"]), code="policy_refused",
            hint="Change the code or the rule, and plan again. A check that can be overridden needs a saved plan.",
        )  # fmt: skip
    if reply.get("problem"):
        space.say(f"[runyard] {reply['problem']}")


async def _evaluate_all(space: Workspace, given: Mapping[str, Any]) -> list[dict[str, Any]]:
    binary = await _find(space)
    if binary is None or space.shown is None:
        problem = failed_set(_MISSING, _HOW) if binary is None else failed_set("The engine showed no plan to check.")
        return [problem for _ in given["sets"]]
    capabilities = space.root / "capabilities.json"
    space.write(capabilities, pure_capabilities(await space.capture([binary, "capabilities", "--current"])))
    command = [binary, "eval", "--format=json", f"--capabilities={capabilities}"]
    return [await _evaluate(space, command, space.shown, given["run"], each["files"]) for each in given["sets"]]


async def _find(space: Workspace) -> str | None:
    """Find OPA where engines are found; where the operator's command provides engines, it provides this one, too."""
    path = space.context.finder.path
    if shutil.which(OPA, path=path) is None and space.context.settings.engine.fetch_command:
        await provide(space, OPA)
        path = space.context.finder.path
    found = shutil.which(OPA, path=path)
    if found is None or not await asyncio.to_thread(has_its_checksum, Path(found)):
        return None
    space.env["PATH"] = path
    return found


async def _evaluate(
    space: Workspace, command: list[str], plan: bytes, run: Mapping[str, Any], given: Mapping[str, str]
) -> dict[str, Any]:
    files = {name: text for name, text in given.items() if not name.endswith("_test.rego")}
    # A new folder: the job may have put a link where one of a known name would be.
    folder = Path(await asyncio.to_thread(tempfile.mkdtemp, dir=space.root, prefix="policies-"))
    for name, text in files.items():
        target = folder / name
        target.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        space.write(target, text.encode())
    try:
        with sealed(policy_input(plan, run, files), space.root) as (path, descriptors):
            argv = [*command, f"--input={path}", f"--data={folder}", QUERY]
            async with asyncio.timeout(EVALUATION_SECONDS):
                answer = await space.capture(argv, ok=_EITHER, pass_fds=descriptors)
    except TimeoutError:
        return failed_set(f"The set did not end within {EVALUATION_SECONDS:g} s.", "Look for a rule without an end.")
    except (JobFailed, EngineKilled) as error:
        return failed_set(f"OPA could not evaluate the set: {error.message}")
    resources = (space.plan_summary or {}).get("resources") or []
    addresses = [str(each["address"]) for each in resources if each.get("address")]
    return read_verdict(answer, files, addresses, space.log.redactor.redact)
