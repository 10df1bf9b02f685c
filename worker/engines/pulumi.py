"""Pulumi, with a file backend in the job's directory; its checkpoint is kept on the server like any state."""

import json
import os
from pathlib import Path

from worker.attempt.workspace import Workspace, fetch_artifact
from worker.engines.apply_events import ApplyEvents, follow_file, pulumi_event
from worker.engines.hcl import PLAN_ARTIFACT
from worker.engines.module_backend import lock_info
from worker.engines.outputs import secret_outputs, shown_outputs
from worker.engines.plan_changes import CHANGES_ARTIFACT, settle_drift
from worker.engines.plan_summary import CHANGE_DIGEST
from worker.engines.pulumi_events import as_plan, as_summary, change_digest, read_changes, read_summary
from worker.engines.sealed_plan import SHA256, load_sealed, opened_plan, seal_plan, sealed_bytes
from worker.enums import JobType
from worker.errors import EngineKilled, JobFailed
from worker.finder import FoundEngine

STACK = "runyard"
SETTINGS_FILE = f"Pulumi.{STACK}.yaml"
SETTINGS_ARTIFACT = "stack.yaml"
# A value on the command line would be seen by every process of the machine; a variable is its own process's.
_INPUT = "RUNYARD_INPUT"
_BY_INPUT = f'printf "%s\\n" "${_INPUT}" | {{ unset {_INPUT}; exec "$0" "$@"; }}'
_QUIET = ["--non-interactive", "--color=always"]


class PulumiDriver:
    """Imports the checkpoint before, exports it after each step that may have changed it."""

    def __init__(self, engine: FoundEngine) -> None:
        self._binary = str(engine.binary)

    async def write_inputs(self, space: Workspace) -> None:
        """Point Pulumi at a backend and a home of the job's own."""
        if refused := sorted(space.variables.expressions):
            raise JobFailed(
                f"Pulumi has no HCL expressions: {', '.join(refused)}.", code="bad_variable",
                hint="Set these inputs as JSON values.",
            )  # fmt: skip
        for name in ("pulumi-state", "pulumi-home"):
            (space.root / name).mkdir(mode=0o700)
        space.env |= {
            "PULUMI_BACKEND_URL": f"file://{space.root / 'pulumi-state'}",
            "PULUMI_HOME": str(space.root / "pulumi-home"),
            "PULUMI_SKIP_UPDATE_CHECK": "true",
            # Without it there is no --event-log, from which the summary is read.
            "PULUMI_DEBUG_COMMANDS": "true",
            "PULUMI_AUTOMATION_API_SKIP_VERSION_CHECK": "true",
            "PULUMI_CONFIG_PASSPHRASE": space.env.get("PULUMI_CONFIG_PASSPHRASE", ""),
        }
        # Plugins come from the machine, where the operator installed them; nothing is fetched behind his back.
        home = space.context.environ.get("HOME") or os.path.expanduser("~")  # noqa: PTH111
        plugins = Path(home) / ".pulumi" / "plugins"
        if plugins.is_dir():
            (space.root / "pulumi-home" / "plugins").symlink_to(plugins)

    async def init(self, space: Workspace) -> None:
        """Make the stack, set its configuration, and bring the last checkpoint in."""
        settings = space.work / SETTINGS_FILE
        is_planned = space.job.plan_job_id is not None and space.job.type is not JobType.DESTROY
        if is_planned and not settings.exists():
            # A plan's secrets are encrypted with the salt of the stack that it was made in.
            space.write(settings, await fetch_artifact(space, SETTINGS_ARTIFACT))
        await space.run([self._binary, "stack", "init", STACK, *_QUIET])
        await self._configure(space)
        state = await space.backend.store.state_get(space.ref)
        if state.exists and state.body:
            checkpoint = space.root / "checkpoint.json"
            space.write(checkpoint, state.body.encode())
            await space.run([self._binary, "stack", "import", "--file", str(checkpoint), "--stack", STACK, *_QUIET])
            checkpoint.unlink()

    async def plan(self, space: Workspace, *, is_destroy: bool, is_refresh_only: bool) -> None:
        """Preview; the summary comes from the engine's events."""
        events = space.root / "preview-events.json"
        if is_destroy:
            command = ["destroy", "--preview-only", "--diff"]
        elif is_refresh_only:
            command = ["refresh", "--preview-only", "--diff"]
        else:
            command = ["preview", "--diff", f"--save-plan={space.plan_file}"]
        await space.run(
            [self._binary, *command, f"--event-log={events}", "--stack", STACK, *_QUIET], what=f"pulumi {command[0]}"
        )
        seal_plan(space)
        log = space.read(events)
        space.shown = as_plan(log)
        space.plan_summary = {**read_summary(log), **({SHA256: space.result[SHA256]} if space.plan else {})}
        space.on_summary()
        if space.spec.options.git and (digest := change_digest(log)):
            space.result[CHANGE_DIGEST] = digest
        changes = read_changes(log, space.log.redactor.redact)
        settle_drift(space, changes["resources"])
        await space.context.server.put_artifact(space.ref, CHANGES_ARTIFACT, json.dumps(changes).encode())

    async def save_plan(self, space: Workspace) -> None:
        """Keep the update plan, where Pulumi made one."""
        settings = space.read(space.work / SETTINGS_FILE)
        if space.plan is not None and settings is not None:
            await space.context.server.put_artifact(space.ref, SETTINGS_ARTIFACT, space.keys.seal(settings))
            await space.context.server.put_artifact(space.ref, PLAN_ARTIFACT, space.keys.seal(sealed_bytes(space)))

    async def load_plan(self, space: Workspace) -> None:
        """Fetch the update plan of the job that was approved; a destroy has none, it removes what there is."""
        if space.job.type is JobType.DESTROY:
            return
        load_sealed(space, await fetch_artifact(space, PLAN_ARTIFACT))

    async def apply(self, space: Workspace, *, is_destroy: bool) -> None:
        """Update or destroy under the server's lock, and export the checkpoint whatever happens."""
        events = space.root / "apply-events.json"
        command = ["destroy" if is_destroy else "up", "--yes", "--skip-preview", f"--event-log={events}"]
        if space.plan_summary is None and space.job.plan_job_id is not None:
            space.plan_summary = as_summary(await fetch_artifact(space, CHANGES_ARTIFACT))
            space.on_summary()
        followed = ApplyEvents(space.plan_summary or {}, pulumi_event, space.on_summary)
        async with follow_file(lambda offset: space.read(events, offset=offset), followed):
            if space.plan is None or is_destroy:
                await self._change(space, command)
            else:
                with opened_plan(space) as (path, descriptors):
                    await self._change(space, [*command, f"--plan={path}"], descriptors)
        if space.plan_summary is None:
            space.plan_summary = read_summary(space.read(events))
            space.on_summary()

    async def _change(self, space: Workspace, command: list[str], descriptors: tuple[int, ...] = ()) -> None:
        lock = lock_info(space, "pulumi")
        await space.backend.store.state_lock(space.ref, lock)
        is_killed = False
        try:
            await space.run(
                [self._binary, *command, "--stack", STACK, *_QUIET], what=f"pulumi {command[0]}", pass_fds=descriptors,
                is_changing=True,
            )  # fmt: skip
        except EngineKilled:
            is_killed = True
            raise
        finally:
            await self._export(space, str(lock["ID"]), keeps_lock=is_killed)

    async def change_state(self, space: Workspace) -> None:
        """Refuse: the server enqueues no such job for Pulumi."""
        raise JobFailed(
            f"{space.job.type} is not a job for Pulumi.", code="bad_payload",
            hint="Pull the state, run `pulumi state` on it, and push it.",
        )  # fmt: skip

    async def output(self, space: Workspace) -> None:
        """Read the stack's outputs; secrets are shown as [secret]."""
        shown = json.loads(await space.capture([self._binary, "stack", "output", "--json", "--stack", STACK]) or b"{}")
        outputs = {name: {"value": value, "sensitive": value == "[secret]"} for name, value in shown.items()}
        space.log.redactor.add(*secret_outputs(outputs))
        space.result["outputs"] = shown_outputs(outputs, space.log.redactor.redact)
        await space.run([self._binary, "stack", "output", "--stack", STACK])

    async def rescue(self, space: Workspace) -> None:
        """Nothing is left to do: the checkpoint was exported when the apply ended, however it ended."""

    async def _configure(self, space: Workspace) -> None:
        for name, value in sorted({**space.variables.inputs, **space.bound.values}.items()):
            text = value if isinstance(value, str) else json.dumps(value)
            kind = "--secret" if name in space.bound.sensitive else "--plaintext"
            words = [self._binary, "config", "set", name, kind, "--stack", STACK, *_QUIET]
            before, space.env = space.env, {**space.env, _INPUT: text}
            try:
                await space.run(["/bin/sh", "-c", _BY_INPUT, *words], what=f"pulumi config set {name}")
            finally:
                space.env = before

    async def _export(self, space: Workspace, lock_id: str, *, keeps_lock: bool) -> None:
        """Hand the checkpoint over, although a stop may have been requested; after a kill only a person unlocks."""
        from worker.children.child import Child

        async def ignore(_: bytes) -> None:
            return

        target = space.root / "export.json"
        # Apart from the job's control.
        command = space.command([self._binary, "stack", "export", "--file", str(target), "--stack", STACK])
        code = await Child.start(command).run(ignore)
        body = space.read(target)
        if code != 0 or body is None:
            space.say("The stack's checkpoint could not be exported.")
            return
        await space.backend.store.state_put(space.ref, body.decode(), lock_id)
        if not keeps_lock:
            await space.backend.store.state_unlock(space.ref, lock_id)
