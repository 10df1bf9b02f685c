"""What is wrong with a runner, what that means for jobs, and what to do about it."""

from collections.abc import Mapping
from typing import Any, TypedDict

from app.runners.view.rows import clock_words

Row = Mapping[str, Any]


class Advice(TypedDict):
    """One condition in words: what, what it means for jobs, and the way out."""

    code: str
    icon: str
    tone: str
    title: str
    text: str
    doc: str


def build_advice(worker: Row, latest: str) -> list[Advice]:
    """Say each condition of a listed runner, the worst first."""
    version, reason = str(worker.get("version") or "an unknown version"), str(worker.get("health_reason") or "")
    known: dict[str, Advice] = {
        "never_contacted": {
            "code": "never_contacted",
            "icon": "circle-dashed",
            "tone": "gray",
            "title": "It has never connected.",
            "text": "Start it on its machine with the command and the token that were shown; Rotate token makes a new one.",
            "doc": "self-hosted",
        },
        "out_of_contact": {
            "code": "out_of_contact",
            "icon": "unplug",
            "tone": "red",
            "title": "No heartbeat comes any more.",
            "text": "An apply that it runs goes on as far as we know, and its state stays on its disk until it is back. "
            "Plans go to other runners. Look at its machine, or start it again.",
            "doc": "troubleshooting",
        },
        "degraded": {
            "code": "degraded",
            "icon": "circle-alert",
            "tone": "amber",
            "title": reason or "It says that it cannot work.",
            "text": "It gives new jobs back to the queue at no cost, and running ones go on. It comes back by itself "
            "once this is mended.",
            "doc": "troubleshooting",
        },
        "clock_off": {
            "code": "clock_off",
            "icon": "clock-alert",
            "tone": "amber",
            "title": f"Its clock is {clock_words(worker)}.",
            "text": "Clouds and registries refuse what is signed with a wrong time, and its log lines carry it; from a minute "
            "on, sign-ins fail, too. Set the machine's clock by NTP: timedatectl set-ntp true.",
            "doc": "troubleshooting",
        },
        "takes_no_jobs": {
            "code": "takes_no_jobs",
            "icon": "circle-pause",
            "tone": "amber",
            "title": "It has a free slot, and takes none of the jobs that wait for it.",
            "text": "Its heartbeats come, so it is there; what asks for jobs in it may hang. Look at its own log, and start "
            "it again: running jobs are finished first.",
            "doc": "troubleshooting",
        },
        "outdated": {
            "code": "outdated",
            "icon": "circle-arrow-up",
            "tone": "amber",
            "title": f"It runs {version}, and {latest or 'a newer release'} is out.",
            "text": "Update does it by a job where it updates itself or was deployed from here, and says how to do it by "
            "hand otherwise. On the first signal it drains, so nothing is interrupted.",
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
