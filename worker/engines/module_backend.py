"""The backend that a module's own code names, refused until somebody chose one."""

import asyncio
import json
import uuid
from datetime import UTC, datetime
from typing import Any

from wire.hcl_blocks import STATE_FILE, Facts, read_facts
from worker.attempt.workspace import Workspace
from worker.children.environment import host_variables
from worker.engines.plugin_cache import provider_cache
from worker.enums import EngineName, JobType, StateHome
from worker.errors import JobFailed
from worker.files.own_files import remove_own
from worker.finder import FoundEngine

BACKEND_FILE = "runyard_backend_override.tf.json"
_OVERRIDE: dict[str, Any] = {"terraform": {"backend": {"http": {}}}}
# Of no resource: the command takes the backend's lock as every change does, removes nothing and releases it.
_NO_RESOURCE = "runyard_lock_check.none"


def has_own(space: Workspace) -> bool:
    """Whether the module keeps its own backend."""
    return space.spec.module.backend is StateHome.OWN


async def settle_backend(space: Workspace, engine: FoundEngine, init: list[str]) -> None:
    """Point the engine at the backend that was chosen; refuse where nobody has chosen and a state would be lost sight of."""
    is_tofu = engine.name is EngineName.TOFU
    facts = await asyncio.to_thread(read_facts, space.work, is_tofu=is_tofu, leave_out=(BACKEND_FILE,))
    if has_own(space):
        space.env = _without_ours(space)
        space.say(f"State: {_named(facts)}, which the module keeps. Runyard stores no state of it.")
        return
    if space.spec.options.bring_state and space.job.type is JobType.PLAN:
        await _bring_state(space, engine, facts, init)
    elif facts.backend:
        await _check_choice(space, facts)
    # In the job's own copy of the source: beside another backend, the engine would ask whether to move it there.
    for folder in (space.work, space.unit or space.work):
        (folder / STATE_FILE).unlink(missing_ok=True)
        # The workspace that `cloud {}` has selected: the runner's backend has none.
        remove_own(space.root, folder / ".terraform" / "environment")
    space.write(space.work / BACKEND_FILE, json.dumps(_OVERRIDE).encode())


def check_backend(space: Workspace) -> None:
    """Refuse to continue where another override file of the code has won over the runner's."""
    body = space.read(space.work / ".terraform" / "terraform.tfstate")
    backend = (json.loads(body) if body else {}).get("backend") or {}
    if has_own(space) or not backend:
        return
    if backend.get("type") != "http" or (backend.get("config") or {}).get("address"):
        raise JobFailed(
            f'The code sets the backend "{backend.get("type")}" in an override file that wins over the runner\'s.',
            code="backend_override",
            hint="Remove the backend from that *_override.tf, or keep the module's own backend.",
        )


async def _check_choice(space: Workspace, facts: Facts) -> None:
    is_ours = facts.host != "" and facts.host == space.context.settings.server.discovery_host
    is_chosen = is_ours or space.spec.module.backend is StateHome.RUNYARD
    if is_chosen or (await space.backend.store.state_get(space.ref)).exists:
        space.say(f"State: Runyard's. {_named(facts)} in the code is not used.")
        return
    path = space.spec.module.path
    raise JobFailed(
        f"The code keeps its state in {_named(facts)}, and Runyard has none of it: a plan would create everything again.",
        code="backend_undecided",
        hint=f"Choose one. Bring the state in: runyard state import {path}. Keep that backend: runyard state keep-own {path}. "
        f"Start without what exists: runyard state start-empty {path}.",
    )


async def _bring_state(space: Workspace, engine: FoundEngine, facts: Facts, init: list[str]) -> None:
    """Read the state from the code's own backend and store it here; nothing is written there but its lock, for a moment."""
    if facts.has_encryption or space.env.get("TF_ENCRYPTION"):
        raise JobFailed(
            "The module encrypts its state, and the engine would hand it out in the clear.", code="state_encrypted",
            hint="Take the file out of its backend as it is, and store it: runyard state push MODULE FILE.",
        )  # fmt: skip
    binary, stored = str(engine.binary), await space.backend.store.state_get(space.ref)
    before, space.env = space.env, _without_ours(space)
    try:
        async with provider_cache(space, engine):
            await space.run(init, what=f"{space.spec.module.engine} init")
        _read_state(await space.capture([binary, "state", "pull"]), facts)
        locking = [binary, "state", "rm", "-dry-run", "-lock-timeout=30s", _NO_RESOURCE]
        await space.run(locking, what=f"{space.spec.module.engine} lock-check of {_named(facts)}")
        body = (await space.capture([binary, "state", "pull"])).decode()
    finally:
        space.env = before
    state = _read_state(body.encode(), facts)
    if stored.exists and stored.body != body:
        raise JobFailed(
            "Runyard has a state of this module already.", code="state_exists",
            hint="Plan the module. `runyard state versions` lists what is stored.",
        )  # fmt: skip
    await _store(space, body)
    space.result["brought_state"] = {"backend": facts.backend, **_described(state)}
    space.say("Brought in serial {serial}, lineage {lineage}, {resources} resources.".format(**_described(state)))


async def _store(space: Workspace, body: str) -> None:
    store, lock = space.backend.store, lock_info(space, "runyard")
    await store.state_lock(space.ref, lock)
    try:
        await store.state_put(space.ref, body, str(lock["ID"]))
    finally:
        await store.state_unlock(space.ref, str(lock["ID"]))


def _read_state(body: bytes, facts: Facts) -> dict[str, Any]:
    try:
        state = json.loads(body or b"{}")
    except ValueError:
        state = {}
    if not isinstance(state, dict) or not state.get("lineage"):
        raise JobFailed(
            f"There is no state in {_named(facts)}.", code="no_state",
            hint="See whether the backend's settings and workspace are those that the state was written with.",
        )  # fmt: skip
    return state


def _described(state: dict[str, Any]) -> dict[str, Any]:
    managed = [each for each in state.get("resources") or [] if each.get("mode") != "data"]
    count = sum(len(each.get("instances") or []) for each in managed)
    return {"serial": state.get("serial"), "lineage": state.get("lineage"), "resources": count}


def _without_ours(space: Workspace) -> dict[str, str]:
    """The environment without the runner's backend, which an `http` backend of the code would take its password from."""
    ours = space.backend.variables()
    passed = host_variables(space.context.environ, space.context.settings.engine.pass_environment)
    return {name: value for name, value in space.env.items() if name not in ours} | {
        name: passed[name] for name in ours if name in passed
    }


def _named(facts: Facts) -> str:
    return f'the backend "{facts.backend}" ({facts.place})' if facts.backend else "the engine's default backend"


def lock_info(space: Workspace, version: str) -> dict[str, Any]:
    """Describe the lock for the people who meet it; `version` names the engine."""
    return {
        "ID": str(uuid.uuid4()),
        "Operation": f"OperationType{space.job.type.value.title()}",
        "Info": "",
        "Who": space.context.settings.runner.instance,
        "Version": version,
        "Created": datetime.now(UTC).isoformat(),
        "Path": space.spec.module.path,
    }
