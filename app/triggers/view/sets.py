"""A set of jobs as one thing: its line, its bar, and what failed."""

from typing import Any, TypedDict

from app.ui.view import Row, read

TITLES = {"PLAN": "Plan all", "DRIFT": "Check all for drift", "APPLY": "Apply all", "DESTROY": "Destroy"}
MINUTE = 60
COLOURS = {
    "succeeded": "var(--ry-st-succeeded)",
    "failed": "var(--ry-st-failed)",
    "running": "var(--ry-st-processing)",
    "waiting": "var(--gray-a5)",
    "left out": "var(--gray-a8)",
}


class FailureView(TypedDict):
    """One job of a set that failed, or a module that could have none."""

    job: str
    href: str
    path: str
    message: str


class KeyView(TypedDict):
    """One colour of the bar, and what it counts."""

    words: str
    color: str


class SetView(TypedDict):
    id: str
    title: str
    line: str
    by: str
    left: str
    foot: str
    changes_href: str
    review_href: str
    succeeded: str
    failed: str
    running: str
    key: list[KeyView]
    is_running: bool
    can_retry: bool
    failures: list[FailureView]
    waits: list[str]


def build_view(row: Row, why: Row | None = None) -> SetView:
    """Read a set's progress, and why some of its modules have no job."""
    kind, key, failures = str(row.get("type") or ""), row.get("id"), row.get("failures") or []
    is_running = row.get("status") == "RUNNING"
    return read(
        SetView,
        row,
        title=TITLES.get(kind, kind),
        line=_line(row),
        by=f"started by {row.get('created_by_label') or 'system'}",
        left=left_words(row.get("seconds_left")) if is_running else "",
        foot=_foot(row),
        changes_href=f"/dashboard/jobs?changed={key}" if row.get("with_changes") and key else "",
        review_href="" if kind == "DRIFT" else f"/dashboard/modules/review?set={key}",
        **{name: _share(row, name) for name in ("succeeded", "failed", "running")},
        key=[_key(row, name, color) for name, color in COLOURS.items() if name != "left out" or row.get("left_out")],
        is_running=is_running,
        can_retry=any(one.get("status") in (None, "", "FAILED") for one in failures),
        failures=[_failure(one) for one in failures[:10]],
        waits=_waits(why or {})[:10],
    )


def _line(row: Row) -> str:
    total, done, failed = (int(row.get(name) or 0) for name in ("total", "done", "failed"))
    return f"{done} of {total} done" + (f", {failed} failed" if failed else "")


def _waits(why: Row) -> list[str]:
    """Describe which modules wait for others, and which were left out; a module that waits only for its turn is not named."""
    waiting = [one for one in why.get("waiting") or [] if one["waits_for"]]
    lines = [f"{one['module_path']} waits for {', '.join(map(_before, one['waits_for']))}" for one in waiting]
    lines += [f"{one['module_path']}: {one['message']}" for one in why.get("waiting_for_apply") or []]
    return lines + [f"{one['module_path']} is left out. {one['message']}" for one in why.get("left_out") or []]


def _before(one: Row) -> str:
    return f"{one['module_path']} (#{one['job_number']})" if one.get("job_number") else str(one["module_path"])


def _key(row: Row, name: str, color: str) -> KeyView:
    return {"words": f"{row.get(name.replace(' ', '_')) or 0} {name}", "color": color}


def left_words(seconds: Any) -> str:
    if seconds is None:
        return ""
    whole = int(float(seconds))
    return f"about {whole} s left" if whole < MINUTE else f"about {round(whole / MINUTE)} min left"


def _share(row: Row, name: str) -> str:
    return f"{int(row.get(name) or 0) * 100 / max(1, int(row.get('total') or 0)):.1f}%"


def _foot(row: Row) -> str:
    changes, waiting, running = (int(row.get(name) or 0) for name in ("with_changes", "waiting", "running"))
    many = (f"{changes} plans have changes.", f"{changes} modules have drift.")
    plans, drifts = ("1 plan has changes.", "1 module has drift.") if changes == 1 else many
    found = {"PLAN": plans, "DRIFT": drifts}
    words = found.get(str(row.get("type")), "") if changes else ""
    if row.get("waiting_for_apply"):
        words = f"{words} {row['waiting_for_apply']} are planned after applies.".strip()
    if row.get("left_out"):
        words = (
            f"{words} {row['left_out']} left out because of what failed; a successful retry runs them as well.".strip()
        )
    if row.get("status") != "RUNNING" or not waiting:
        return words
    goes_on = f"; the {running} running {'finishes' if running == 1 else 'finish'}" if running else ""
    return f"{words} Cancel the rest stops the {waiting} that wait{'s' if waiting == 1 else ''}{goes_on}.".strip()


def _failure(one: Row) -> FailureView:
    job = str(one.get("job_number") or "")
    href = f"/dashboard/jobs/{job}" if job else ""
    return read(FailureView, one, job=f"#{job}" if job else "–", href=href, path=one.get("module_path"))
