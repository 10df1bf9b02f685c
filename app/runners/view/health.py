"""The problems of a runner, their effect on jobs, and the ways out."""

from typing import TypedDict

from app.runners.view.rows import clock_words
from app.ui.view import Row


class Advice(TypedDict):
    """One condition in words: its title, its effect on jobs, and the way out."""

    code: str
    icon: str
    tone: str
    title: str
    text: str
    doc: str


# By condition, the worst first: icon, tone, page of the documentation, title, and the effect on jobs with the way out.
ADVICE = {
    "out_of_contact": (
        "unplug", "red", "troubleshooting", "Its heartbeats have stopped.",
        ("An apply may still be running there; its state stays on its disk until it is back. Plans go to other runners. "
        "Check its machine, or restart it."),
    ),
    "degraded": (
        "circle-alert", "amber", "troubleshooting", "{reason}",
        "It gives new jobs back to the queue at no cost, and running ones continue. It takes jobs again once this is fixed.",
    ),
    "takes_no_jobs": (
        "circle-pause", "amber", "troubleshooting", "It has a free slot, but takes none of the jobs that wait for it.",
        ("It still sends heartbeats, so the part of it that asks for jobs may hang. Check its own log, then restart it: "
        "running jobs are finished first."),
    ),
    "clock_off": (
        "clock-alert", "amber", "troubleshooting", "Its clock is {clock}.",
        ("Clouds and registries refuse requests that are signed with a wrong time, and its log lines carry it; from a "
        "minute on, sign-ins fail too. Set the machine's clock by NTP: timedatectl set-ntp true."),
    ),
    "never_contacted": (
        "circle-dashed", "gray", "self-hosted", "It was never in contact.",
        "Start it on its machine with the command and token that were shown. If you lost them, use Rotate token.",
    ),
    "outdated": (
        "circle-arrow-up", "amber", "upgrades", "It runs {version}, and {latest} is out.",
        ("Update runs as a job if the runner updates itself or was deployed from here; otherwise it shows the commands. "
        "The runner drains first, so nothing is interrupted."),
    ),
    "not_isolated": (
        "shield-off", "gray", "security", "Its jobs run without a sandbox.",
        "They can read each other's files and the runner's. Give it only modules that trust each other.",
    ),
}  # fmt: skip


def build_advice(worker: Row, latest: str) -> list[Advice]:
    """Describe each condition of a listed runner, the worst first."""
    found = {str(code) for code in worker.get("health") or []}
    facts = {
        "version": worker.get("version") or "an unknown version",
        "reason": worker.get("health_reason") or "It reports that it cannot run jobs.",
        "clock": clock_words(worker),
        "latest": latest or "a newer release",
    }
    return [
        Advice(code=code, icon=icon, tone=tone, title=title.format(**facts), text=text, doc=doc)
        for code, (icon, tone, doc, title, text) in ADVICE.items()
        if code in found
    ]
