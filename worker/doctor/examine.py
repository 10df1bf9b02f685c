"""Runs every check, and shows the findings: coloured on a terminal, plain lines elsewhere."""

import asyncio
from collections.abc import Sequence

from rich.console import Console
from rich.text import Text

from worker.cloud.proof import prove_aws
from worker.doctor.check import Check, Verdict, ok, skip
from worker.doctor.dispatchers import dispatcher_checks
from worker.doctor.host import host_checks
from worker.doctor.network import network_checks
from worker.settings.model import Settings

MARKS = {
    Verdict.OK: ("✓", "green"),
    Verdict.WARN: ("!", "yellow"),
    Verdict.FAIL: ("✗", "red"),
    Verdict.SKIP: ("–", "dim"),
}


def examine(settings: Settings) -> list[Check]:
    """Return every finding, the machine's first."""
    outside = (*asyncio.run(network_checks(settings)), *asyncio.run(dispatcher_checks(settings)))
    return [*host_checks(settings), cloud_rights(), *outside]


def cloud_rights() -> Check:
    """Ask AWS for our identity, as the runner does."""
    proof = prove_aws()
    if proof.arn:
        return ok("Cloud", f"AWS knows this machine as {proof.arn}: it can run jobs about cloud-hosted runners")
    return skip("Cloud", f"no jobs about cloud-hosted runners here: {proof.why}")


def show(checks: Sequence[Check], console: Console) -> None:
    """Write one line for each finding, its remedy below it, and a last word."""
    for check in checks:
        mark, style = MARKS[check.verdict]
        label = f"{mark} " if console.is_terminal else f"{check.verdict.value:<8} "
        console.print(Text.assemble((label, style), (check.name, "bold"), f": {check.seen}"), soft_wrap=True)
        if check.remedy:
            console.print(Text(f"    → {check.remedy}", style=style), soft_wrap=True)
    console.print(Text(summary(checks), style="bold"), soft_wrap=True)


def summary(checks: Sequence[Check]) -> str:
    """Summarise in one sentence whether the runner can work."""
    failed = sum(check.verdict is Verdict.FAIL for check in checks)
    warned = sum(check.verdict is Verdict.WARN for check in checks)
    if failed:
        return f"The runner cannot work yet: {failed} to put right."
    return f"The runner can work; {warned} to look at." if warned else "The runner is ready to work."
