"""The problems of a runner, their effect on jobs, and the ways out."""

from collections.abc import Mapping
from typing import Any, TypedDict

from app.runners.view.rows import clock_words

Row = Mapping[str, Any]


class Advice(TypedDict):
    """One condition in words: its title, its effect on jobs, and the way out."""

    code: str
    icon: str
    tone: str
    title: str
    text: str
    doc: str


def build_advice(worker: Row, latest: str) -> list[Advice]:
    """Describe each condition of a listed runner, the worst first."""
    version, reason = str(worker.get("version") or "an unknown version"), str(worker.get("health_reason") or "")
    known: dict[str, Advice] = {
        "never_contacted": {
            "code": "never_contacted",
            "icon": "circle-dashed",
            "tone": "gray",
            "title": "It has never connected.",
            "text": "Start it on its machine with the command and token that were shown. If you lost them, use Rotate token.",
            "doc": "self-hosted",
        },
        "out_of_contact": {
            "code": "out_of_contact",
            "icon": "unplug",
            "tone": "red",
            "title": "Its heartbeats have stopped.",
            "text": "An apply may still be running there; its state stays on its disk until it is back. "
            "Plans go to other runners. Check its machine, or restart it.",
            "doc": "troubleshooting",
        },
        "degraded": {
            "code": "degraded",
            "icon": "circle-alert",
            "tone": "amber",
            "title": reason or "It reports that it cannot run jobs.",
            "text": "It gives new jobs back to the queue at no cost, and running ones continue. It takes jobs again "
            "once this is fixed.",
            "doc": "troubleshooting",
        },
        "clock_off": {
            "code": "clock_off",
            "icon": "clock-alert",
            "tone": "amber",
            "title": f"Its clock is {clock_words(worker)}.",
            "text": "Clouds and registries refuse requests that are signed with a wrong time, and its log lines carry it; from a "
            "minute on, sign-ins fail too. Set the machine's clock by NTP: timedatectl set-ntp true.",
            "doc": "troubleshooting",
        },
        "takes_no_jobs": {
            "code": "takes_no_jobs",
            "icon": "circle-pause",
            "tone": "amber",
            "title": "It has a free slot, but takes none of the jobs that wait for it.",
            "text": "It still sends heartbeats, so the part of it that asks for jobs may hang. Check its own log, then restart "
            "it: running jobs are finished first.",
            "doc": "troubleshooting",
        },
        "outdated": {
            "code": "outdated",
            "icon": "circle-arrow-up",
            "tone": "amber",
            "title": f"It runs {version}, and {latest or 'a newer release'} is out.",
            "text": "Update runs as a job if the runner updates itself or was deployed from here; otherwise it shows the "
            "commands. The runner drains first, so nothing is interrupted.",
            "doc": "upgrades",
        },
        "not_isolated": {
            "code": "not_isolated",
            "icon": "shield-off",
            "tone": "gray",
            "title": "Its jobs run without a sandbox.",
            "text": "They can read each other's files and the runner's. Give it only modules that trust each other.",
            "doc": "security",
        },
    }
    order = ("out_of_contact", "degraded", "takes_no_jobs", "clock_off", "never_contacted", "outdated", "not_isolated")
    found = {str(code) for code in worker.get("health") or []}
    return [known[code] for code in order if code in found]
