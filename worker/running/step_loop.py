"""The loop over a job's steps: one cancel check, one error printer."""

from collections.abc import Awaitable, Callable

from worker.attempt.outcome import as_job_error
from worker.attempt.workspace import Step, Workspace
from worker.enums import CHANGING_PHASES, JobPhase, StepStatus
from worker.errors import JobCancelled, JobFailed, JobInterrupted, JobTimedOut
from worker.running.reporter import Reporter
from worker.runtime_log import get_logger

# After one of these has ended well the job has done what it was for, no matter who stops it then.
_CHANGES = frozenset({"apply", "destroy"})


class StepLoop:
    """Runs steps in order; the first that fails ends the job, and the rest are shown as skipped."""

    def __init__(self, space: Workspace, reporter: Reporter, on_phase: Callable[[JobPhase], Awaitable[None]]) -> None:
        """`on_phase` receives each phase before it begins, so that a crash is understood later."""
        self._space = space
        self._reporter = reporter
        self._on_phase = on_phase
        self._begun: Step | None = None
        self._has_changed = False
        self._log = get_logger("worker.jobs")

    async def run(self, steps: list[Step]) -> None:
        """Run all steps or raise what ended them."""
        for position, step in enumerate(steps):
            try:
                self._space.control.check(is_between_steps=True)
                await self._run_step(step)
            except BaseException as error:
                for skipped in steps[position + 1 :] if self._begun is step else steps[position:]:
                    self._reporter.skip(skipped.name, skipped.title, skipped.phase)
                if self._has_changed and isinstance(error, JobCancelled | JobInterrupted | JobTimedOut):
                    self._space.say("[runyard] The change itself was complete before the job was stopped.")
                    return
                raise
            self._has_changed = self._has_changed or step.name in _CHANGES

    async def _run_step(self, step: Step) -> None:
        space = self._space
        space.log.begin_step(step.name)
        await self._on_phase(step.phase)
        self._reporter.begin(step.name, step.title, step.phase, space.log.spool.last_seq + 1)
        self._begun = step
        status = StepStatus.FAILED
        try:
            await space.control.run_step(self._gated(step))
            status = StepStatus.SUCCEEDED
        except (JobCancelled, JobInterrupted) as error:
            status = StepStatus.CANCELLED
            space.say(f"[runyard] {error.message}")
            raise
        except Exception as error:
            self._print(step, error)
            raise
        finally:
            space.log.end_output()
            space.log.spool.cut()
            self._reporter.end(status, space.log.spool.last_seq)

    async def _gated(self, step: Step) -> None:
        # Before infrastructure can change, the server must know: a runner that dies from here on is not simply replaced.
        control = self._space.control
        was_touched = control.has_touched
        if step.phase in CHANGING_PHASES:
            await self._space.context.protection.hold(self._space.ref)
            await self._reporter.confirmed()
            control.has_touched = True
        try:
            await step.act(self._space)
        except JobFailed as error:
            if was_touched or not (outage := self._space.backend.lock_outage):
                raise
            control.has_touched = False
            raise JobInterrupted(f"The state could not be locked, so nothing was changed: {outage}") from error

    def _print(self, step: Step, error: Exception) -> None:
        shown = as_job_error(error)
        if shown.code == "runner_error":
            self._log.exception("a step failed unexpectedly", job=self._space.job.id, step=step.name)
        hint = f"\n[runyard] {shown.hint}" if shown.hint else ""
        self._space.say(f"[runyard] {step.title} failed: {shown.message}{hint}")
