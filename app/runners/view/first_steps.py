"""First steps of a fresh organisation: each is ticked by what happened, never by a click."""

from typing import TypedDict

from app.ui.view import Row


class Step(TypedDict):
    title: str
    text: str
    href: str
    act: str
    state: str


def steps(runner: Row, module: Row, plan: Row, mate: Row) -> list[Step]:
    """Describe what was done in each step, or what to do; only the next one is the next one."""
    steps = (
        (
            runner, "Register a runner", f"{runner.get('name')} came online.",
            "A machine of yours that runs the engine. Ticked at its first heartbeat.", "", "Add runner",
        ),
        (
            module, "Create a module", f"{module.get('path')} was created.",
            "A repository or a few files, and the path it gets here.", "/dashboard/modules?new=1", "Create module",
        ),
        (
            plan, "Run a plan", f"Plan #{plan.get('number')} succeeded.",
            "Read-only. Ticked when the first plan succeeds.", "/dashboard/modules", "Choose a module",
        ),
        (
            mate, "Invite a teammate", "A second person has joined.",
            "Ticked when a second person has joined.", "/dashboard/settings/members", "Invite member",
        ),
    )  # fmt: skip
    next_at = next((at for at, step in enumerate(steps) if not step[0]), len(steps))
    return [_step(at, next_at, *step) for at, step in enumerate(steps)]


def _step(at: int, next_at: int, found: Row, title: str, done: str, todo: str, href: str, act: str) -> Step:
    state = "ok" if found else "next" if at == next_at else "todo"
    return {"title": title, "text": done if found else todo, "href": href, "act": act, "state": state}
