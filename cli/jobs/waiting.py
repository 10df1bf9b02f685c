"""Waiting for jobs in a command: followed to their ends, which become the exit code."""

import signal
import sys

import typer

from cli.client.organization import Row
from cli.command import Here
from cli.errors import ExitCode
from cli.jobs.follow import ENDS, Follower
from cli.output import say


def follow(here: Here, jobs: list[Row]) -> list[Row]:
    """Follow jobs one after the other; Ctrl-C asks what is to become of them."""
    done: list[Row] = []
    for job in jobs:
        try:
            done.append(follow_one(here, job))
        except KeyboardInterrupt:
            _interrupted(here, jobs[len(done) :])
    return done


def worst_end(rows: list[Row]) -> int:
    """The exit code of several jobs: the gravest of theirs."""
    return max((int(ENDS[row["status"]]) for row in rows), default=0)


def follow_one(here: Here, job: Row) -> Row:
    """Follow one job until it has ended; its row then."""
    return Follower(here.api, int(job["id"]), is_for_program=here.printer.as_json).until_end()


def _interrupted(here: Here, left: list[Row]) -> None:
    numbers = ", ".join(str(job["number"]) for job in left)
    if sys.stdin.isatty():
        # A second Ctrl-C at the question leaves at once.
        signal.signal(signal.SIGINT, signal.default_int_handler)
        if typer.prompt(f"\nJob {numbers}: [l]eave it running or [c]ancel it?", default="l").lower().startswith("c"):
            for job in left:
                here.api.call("cancel_job", job=job["id"], kind="GRACEFUL", reason="Cancelled from the command line")
            say(f"Asked job {numbers} to stop. `runyard jobs logs -f` shows how it ends.")
            raise typer.Exit(ExitCode.JOB_CANCELLED)
    say(f"Job {numbers} continues. `runyard jobs logs -f {left[0]['number']}` follows it again.")
    raise typer.Exit(ExitCode.INTERRUPTED)


def leave(here: Here, jobs: list[Row]) -> None:
    """Follow jobs, and end as they ended."""
    done = follow(here, jobs)
    if here.printer.as_json:
        here.printer.document(done)
    raise typer.Exit(worst_end(done))
