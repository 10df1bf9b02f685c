"""OpenTofu and Terraform, which take the same commands."""

import asyncio
import json
from contextlib import nullcontext
from typing import Any

from packaging.version import Version

from wire.hcl_blocks import remote_states
from worker.attempt.spec import StateChange
from worker.attempt.workspace import Workspace, fetch_artifact
from worker.engines import plan_summary
from worker.engines.apply_events import ApplyEvents, follow_file, hcl_event, printed_event
from worker.engines.module_backend import check_backend, settle_backend
from worker.engines.outputs import secret_outputs, shown_outputs
from worker.engines.plan_changes import CHANGES_ARTIFACT, changes_of, settle_drift
from worker.engines.plugin_cache import provider_cache
from worker.engines.rescue import errored_state, keep_errored_state
from worker.engines.sealed_plan import SHA256, load_sealed, opened_plan, seal_plan, sealed_bytes
from worker.enums import EngineName, StateAction
from worker.errors import JobFailed, WorkerError
from worker.finder import FoundEngine

_WAIT = "-lock-timeout=30s"

PLAN_ARTIFACT = "plan.tfplan"
META_ARTIFACT = "plan.json"
OUTPUTS_ARTIFACT = "outputs.json"
# The engine reads *.auto.tfvars in the order of their names, and the last value counts: these come after the source's.
INPUTS_FILE = "~runyard.auto.tfvars.json"
EXPRESSIONS_FILE = "~runyard.auto.tfvars"
BOUND_FILE = "~runyard-bound.auto.tfvars.json"
LOCK_FILE = ".terraform.lock.hcl"
_CHANGES = 2


class HclDriver:
    """Runs the binary with human output in the log, and reads machine output beside it."""

    def __init__(self, engine: FoundEngine) -> None:
        self._engine = engine

    @property
    def _binary(self) -> str:
        return str(self._engine.binary)

    def _command(self, *arguments: str) -> list[str]:
        """The command that works on the module's code."""
        return [self._binary, *arguments]

    def _shown(self, *arguments: str) -> str:
        return " ".join([self._engine.name, *arguments])

    async def write_inputs(self, space: Workspace) -> None:
        """Write the variables."""
        inputs, expressions = space.variables.inputs, space.variables.expressions
        for name, values in ((INPUTS_FILE, inputs), (BOUND_FILE, space.bound.values)):
            if values:
                space.write(space.work / name, json.dumps(values, ensure_ascii=False, indent=2).encode())
        if expressions:
            lines = (f"{name} = {text}\n" for name, text in sorted(expressions.items()))
            space.write(space.work / EXPRESSIONS_FILE, "".join(lines).encode())
        space.say(f"Inputs: {', '.join(sorted({*inputs, *expressions})) or 'none'}")

    async def init(self, space: Workspace) -> None:
        """Choose the backend, then install providers and modules."""
        await settle_backend(space, self._engine, self._command("init", "-input=false"))
        if space.job.plan_job_id is not None:
            await self._restore_versions(space)
        # The folder may have a state or another backend's settings in it: nothing is copied from there.
        async with provider_cache(space, self._engine):
            init = ("init", "-input=false", "-reconfigure")
            await space.run(self._command(*init), what=self._shown(*init))
        check_backend(space)

    async def _restore_versions(self, space: Workspace) -> None:
        """Write the provider versions of the saved plan: the engine applies it with no others, and init would choose newer ones."""
        meta = json.loads(await fetch_artifact(space, META_ARTIFACT))
        if lock := meta.get("lock_file"):
            space.write(space.work / LOCK_FILE, str(lock).encode())

    async def plan(self, space: Workspace, *, is_destroy: bool, is_refresh_only: bool) -> None:
        """Plan into a file and summarise it."""
        await self._find_reads(space)
        options = space.spec.options
        flags = ["-destroy"] * is_destroy + ["-refresh-only"] * is_refresh_only
        flags += [f"-target={each}" for each in options.targets] + [f"-replace={each}" for each in options.replace]
        out = f"-out={space.plan_file}"
        await space.run(
            self._command("plan", "-input=false", "-detailed-exitcode", "-lock-timeout=30s", *flags, out),
            ok=(0, _CHANGES),
            what=self._shown("plan", *flags),
        )
        # Before anything else of the job runs: a hook could put another plan in its place.
        seal_plan(space)
        plan = await self._summarise(space, is_refresh_only=is_refresh_only)
        if options.git:
            space.result[plan_summary.CHANGE_DIGEST] = plan_summary.change_digest(plan)
        changes = changes_of(plan, space.log.redactor.redact, is_refresh_only=is_refresh_only)
        settle_drift(space, changes["resources"])
        await space.context.server.put_artifact(space.ref, CHANGES_ARTIFACT, json.dumps(changes).encode())
        if known := plan_summary.planned_outputs(plan, space.log.redactor.redact):
            await space.context.server.put_artifact(space.ref, OUTPUTS_ARTIFACT, json.dumps(known).encode())

    async def _find_reads(self, space: Workspace) -> None:
        """Report whose outputs the code reads: those modules are proposed as dependencies."""
        is_tofu = self._engine.name is EngineName.TOFU
        if found := await asyncio.to_thread(remote_states, space.work, is_tofu=is_tofu):
            reads = [{"organization": org, "workspace": name} for org, name in found[:200]]
            space.result["reads"] = [*space.result.get("reads", []), *reads]

    async def save_plan(self, space: Workspace) -> None:
        """Save the plan with the commit and provider versions that it was made from."""
        body = sealed_bytes(space)
        lock = space.read(space.work / LOCK_FILE)
        meta = {
            "commit": space.result.get("commit"),
            "lock_file": lock.decode(errors="replace") if lock is not None else None,
            "engine": self._engine.name,
            "version": self._engine.version,
        }
        await space.context.server.put_artifact(space.ref, META_ARTIFACT, json.dumps(meta).encode())
        await space.context.server.put_artifact(space.ref, PLAN_ARTIFACT, space.keys.seal(body))
        space.say("Saved the plan.")

    async def load_plan(self, space: Workspace) -> None:
        """Fetch the saved plan."""
        plan = await fetch_artifact(space, PLAN_ARTIFACT)
        load_sealed(space, plan)
        space.say(f"Fetched the plan, {len(plan):,} bytes.")

    async def apply(self, space: Workspace, *, is_destroy: bool) -> None:
        """Carry the planned file out; the engine asks nothing, since a plan is its approval."""
        if space.plan_summary is None:
            await self._summarise(space, is_refresh_only=False)
        # Since 1.12 OpenTofu writes its machine events beside its human output.
        has_events = self._engine.name is EngineName.TOFU and Version(self._engine.version) >= Version("1.12.0")
        file = space.root / "events.jsonl"
        parse = hcl_event if has_events else printed_event
        events = ApplyEvents(space.plan_summary or {}, parse, space.on_summary)
        async with follow_file(lambda offset: space.read(file, offset=offset), events) if has_events else nullcontext():
            with opened_plan(space) as (path, descriptors):
                flags = [f"-json-into={file}"] if has_events else []
                await space.run(
                    self._command("apply", "-input=false", "-lock-timeout=30s", *flags, path),
                    what=self._shown("apply", *["(destroy)"] * is_destroy, PLAN_ARTIFACT),
                    pass_fds=descriptors,
                    is_changing=True,
                    on_output=None if has_events else events.feed,
                )

    async def change_state(self, space: Workspace) -> None:
        """Move, remove or import resources of the state; one module's state is written through the runner's backend."""
        change = space.spec.options.state_change
        if change is None:
            raise JobFailed("The job names no change of the state.", code="bad_payload", hint="Update the runner.")
        match change.action:
            case StateAction.MOVE if change.module:
                await _move_between(space, self._binary, change)
            case StateAction.MOVE:
                await space.run([self._binary, "state", "mv", _WAIT, change.addresses[0], change.to], is_changing=True)
            case StateAction.REMOVE:
                await space.run([self._binary, "state", "rm", _WAIT, *change.addresses], is_changing=True)
            case StateAction.IMPORT:
                command = [*self._command("import"), "-input=false", _WAIT, change.addresses[0], change.id]
                await space.run(
                    command, what=f"{space.spec.module.engine} import {change.addresses[0]}", is_changing=True
                )
        space.result["state_change"] = change.model_dump(mode="json", exclude_defaults=True)

    async def output(self, space: Workspace) -> None:
        """Show the outputs as people do, and keep them with sensitive values masked."""
        outputs: dict[str, Any] = json.loads(await space.capture([self._binary, "output", "-json"]) or b"{}")
        space.log.redactor.add(*secret_outputs(outputs))
        space.result["outputs"] = shown_outputs(outputs, space.log.redactor.redact)
        if outputs:
            await space.run([self._binary, "output"])
        else:
            space.say("The module has no outputs.")

    async def rescue(self, space: Workspace) -> None:
        """Take the state that the engine could not hand to its backend, such as on a full disk."""
        left = errored_state(space.work)
        if left is None:
            return
        try:
            await space.backend.store.state_put(space.ref, left, None)
            space.say("The engine could not save its state; the runner took what it had left behind.")
        except (OSError, WorkerError) as error:
            keep = space.context.settings.working_directory.working_directory / "rescued"
            space.say(
                f"The engine could not save its state ({error}). Its last state is kept on the runner as "
                f"{keep_errored_state(left, keep, space.ref)}; compare it with the stored state before anything else is applied."
            )

    async def _summarise(self, space: Workspace, *, is_refresh_only: bool) -> dict[str, Any]:
        with opened_plan(space) as (path, descriptors):
            shown = await space.capture([self._binary, "show", "-json", path], pass_fds=descriptors)
        plan: dict[str, Any] = json.loads(shown)
        space.shown = shown
        space.log.redactor.add(*plan_summary.sensitive_texts(plan))
        known = plan_summary.planned_outputs(plan, space.log.redactor.redact)
        summary = plan_summary.mark_known(plan_summary.summarise(plan, is_refresh_only=is_refresh_only), known)
        space.plan_summary = {**summary, SHA256: space.result[SHA256]}
        space.on_summary()
        return plan


async def _move_between(space: Workspace, binary: str, change: StateChange) -> None:
    """Move with copies of both states, and hand both in with one call: the server stores both or neither."""
    server = space.context.server
    own, other = await space.backend.store.state_get(space.ref), await server.destination_state(space.ref)
    source, destination = space.root / "move" / "from.tfstate", space.root / "move" / "to.tfstate"
    source.parent.mkdir(mode=0o700, exist_ok=True)
    for path, state in ((source, own), (destination, other)):
        if state.exists and state.body:
            space.write(path, state.body.encode())
    await space.run(
        [binary, "state", "mv", f"-state={source}", f"-state-out={destination}", change.addresses[0], change.to],
        what=f"{space.spec.module.engine} state mv {change.addresses[0]} {change.to} (into the other module)",
        is_changing=True,
    )
    bodies = [(space.read(path) or b"").decode() for path in (source, destination)]
    await server.move_states(space.ref, *bodies)
    space.say("Both states are stored.")
