"""The step that checks a plan with its policy sets, before anything of it is handed in."""

import asyncio
import json
import shutil
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from wire.checks import COMMAND_FILE, cost_words
from worker.attempt.workspace import Workspace
from worker.children.users import COOKIE_VARIABLE
from worker.engines import policy
from worker.engines.unclear import names_in
from worker.enums import OPA
from worker.errors import EngineKilled, JobFailed
from worker.files.own_files import sealed
from worker.finder import has_its_checksum
from worker.steps.check_command import CheckCommand, new_folder
from worker.steps.engine import provide

_EITHER = tuple(range(256))
MISSING = "OPA is not on this runner, so its plans cannot be checked."
HOW = "The runner's operator runs `runyard engines ensure opa`, or sets Engine.FetchCommand."
COSTLY = "Attach a command that leaves cost.json at the same path or above."
_KEPT = ("PATH", "HOME", "TMPDIR", COOKIE_VARIABLE)


async def check_policies(space: Workspace) -> None:
    """Evaluate every set and record the verdicts; the server decides whether the job continues."""
    given = await space.context.server.policies(space.ref)
    # Rules and commands see the plan, and no variable of the job.
    before, space.env = space.env, {name: value for name, value in space.env.items() if name in _KEPT}
    try:
        found = await _evaluate_all(space, given)
    finally:
        space.env = before
    for one, check in zip(given["sets"], found, strict=True):
        cost = f", {cost_words(check['cost'])}" if check.get("cost") else ""
        space.say(f"{one['name']} ({one['level']}): {check['verdict']}{cost}")
        for each in check["messages"]:
            hint = f" {each['hint']}" if each["hint"] else ""
            space.say(f"  {each['rule'] or 'error'}: {each['text']}{hint}")
    checks = [{"id": one["id"], **check} for one, check in zip(given["sets"], found, strict=True)]
    reply = await space.context.server.record_checks(space.ref, checks)
    if reply.get("is_refused"):
        raise JobFailed(
            str(reply["problem"]), code="policy_refused",
            hint="Change the code or the rule, and plan again. A check that can be overridden needs a saved plan.",
        )  # fmt: skip
    if reply.get("problem"):
        space.say(f"[runyard] {reply['problem']}")


async def _evaluate_all(space: Workspace, given: Mapping[str, Any]) -> list[dict[str, Any]]:
    if space.shown is None:
        return [policy.failed_set("The engine showed no plan to check.") for _ in given["sets"]]
    resources = (space.plan_summary or {}).get("resources") or []
    addresses = [str(each["address"]) for each in resources if each.get("address")]
    files = [each["files"] for each in given["sets"]]
    opa = None if all(map(is_command, files)) else await find_opa(space)
    run, found = given["run"], {}
    # Commands first, and of these the ones at higher paths: rules read the cost that the first of them left.
    for place in sorted(range(len(files)), key=lambda place: not is_command(files[place])):
        found[place] = await _evaluate(space, opa, files[place], run, addresses)
        if cost := found[place].get("cost"):
            run = {"cost": cost, **run}
    return [found[place] for place in range(len(files))]


async def _evaluate(
    space: Workspace, opa: list[str] | None, files: Mapping[str, str], run: Mapping[str, Any], addresses: list[str]
) -> dict[str, Any]:
    assert space.shown is not None
    if is_command(files):
        return await CheckCommand(space, files).check(space.shown, run, addresses)
    if opa is None:
        return policy.failed_set(MISSING, HOW)
    if needs_cost(files, run):
        return policy.failed_set("The rules read run.cost, and no command left the cost of this plan.", COSTLY)
    return await Rules(space, opa, files).check(space.shown, run, addresses)


def is_command(files: Mapping[str, str]) -> bool:
    """Whether a set is a command, not rules."""
    return COMMAND_FILE in files


def needs_cost(files: Mapping[str, str], run: Mapping[str, Any]) -> bool:
    """Whether rules read a cost that nobody has left: they would take the plan for free."""
    return "cost" not in run and any("run.cost" in text for text in files.values())


async def find_opa(space: Workspace) -> list[str] | None:
    """Find OPA where engines are found, as a command; where the operator's command provides engines, it provides this one, too."""
    path = space.context.finder.path
    if shutil.which(OPA, path=path) is None and space.context.settings.engine.fetch_command:
        await provide(space, OPA)
        path = space.context.finder.path
    found = shutil.which(OPA, path=path)
    if found is None or not await asyncio.to_thread(has_its_checksum, Path(found)):
        return None
    space.env["PATH"] = path
    capabilities = space.root / "capabilities.json"
    space.write(capabilities, policy.pure_capabilities(await space.capture([found, "capabilities", "--current"])))
    return [found, "eval", "--format=json", f"--capabilities={capabilities}"]


class Rules:
    """The rules of one set, in a folder of their own."""

    def __init__(self, space: Workspace, opa: list[str], given: Mapping[str, str]) -> None:
        """Write the files, without those that test the others."""
        self._space, self._opa = space, opa
        self._files = {name: text for name, text in given.items() if not name.endswith("_test.rego")}
        self._folder = new_folder(space, "policies-", {name: text.encode() for name, text in self._files.items()})

    async def names(self) -> frozenset[str]:
        """Return the keys that the rules read, and the other texts in them; rules that OPA cannot parse have none."""
        found: set[str] = set()
        for name in (each for each in self._files if each.endswith(".rego")):
            argv = [self._opa[0], "parse", "--format=json", str(self._folder / name)]
            try:
                found |= set(names_in(json.loads(await self._space.capture(argv))))
            except (JobFailed, ValueError):
                return frozenset()
        return frozenset(found)

    async def check(self, plan: bytes, run: Mapping[str, Any], addresses: Iterable[str]) -> dict[str, Any]:
        """Evaluate the rules for a plan; they may name these resources."""
        space = self._space
        try:
            with sealed(policy.policy_input(plan, run, self._files), space.root) as (path, descriptors):
                argv = [*self._opa, f"--input={path}", f"--data={self._folder}", policy.QUERY]
                async with asyncio.timeout(policy.EVALUATION_SECONDS):
                    answer = await space.capture(argv, ok=_EITHER, pass_fds=descriptors)
        except TimeoutError:
            return policy.failed_set(
                f"The set did not end within {policy.EVALUATION_SECONDS:g} s.", "Look for a rule without an end."
            )
        except (JobFailed, EngineKilled) as error:
            return policy.failed_set(f"OPA could not evaluate the set: {error.message}")
        return policy.read_verdict(answer, self._files, addresses, space.log.redactor.redact)
