"""The head of a job's page: what, where, how long, by whom, and what can be done about it."""

from typing import Any

import reflex as rx

from app.frame.session import SessionState, may
from app.jobs.components.review import can_decide, discard_button
from app.jobs.state.actions import JobActionState
from app.jobs.state.job import JobState
from app.jobs.state.run import RunState
from app.jobs.view.stages import Stage
from app.ui.badges import JOB_MARKS, job_badge, pill, tag
from app.ui.controls import act_button, dropdown, icon, number_link, page_link, plain_button
from app.ui.elements import ago, clock_seconds, clock_time, since
from app.ui.panel import fact

View = JobState.view


def _kind(icon_name: str, title: Any, text: Any, event: Any, **props: Any) -> rx.Component:
    return rx.dropdown_menu.item(
        icon(icon_name), rx.el.span(title, rx.el.small(text), class_name="grow"), on_select=event, **props
    )


def _kinds() -> list[rx.Component]:
    """Mildest first, each with what it leaves behind."""
    phase = rx.cond(View["phase"] != "", View["phase"].to(str).capitalize(), "The step")
    after = phase + " finishes, then nothing more"
    stop = "One interrupt. The state is saved, resources may be half created"
    kill = "State may be lost. Use only if Stop now hangs"
    return [
        _kind("skip-forward", "After this step", after, JobActionState.cancel("AFTER_STEP")),
        _kind("square", "Stop now", stop, JobActionState.cancel("GRACEFUL")),
        rx.dropdown_menu.separator(),
        _kind("octagon-x", "Kill", kill, JobActionState.ask("KILL"), color_scheme="red"),
    ]


def _cancel_menu() -> rx.Component:
    button = plain_button("Cancel", icon("chevron-down"), class_name="ry-cancel")
    return dropdown(
        button, rx.el.div("Cancel this job", class_name="rt-BaseMenuLabel"), *_kinds(), width="276px", align="end"
    )


def _plan_act() -> rx.Component:
    """Discard the plan or apply it; or say why that is over, and offer a new one."""
    moved_on = rx.el.span("Out of date: serial ", JobState.newer_serial, " is newer", class_name="num")
    again = plain_button(icon("rotate-cw"), "Plan again", on_click=RunState.run_now("PLAN", View["module_id"].to(str)))
    apply_it = act_button(icon("play"), "Apply this plan", on_click=JobActionState.apply_plan)
    old = rx.el.span(moved_on, class_name="mut", custom_attrs={"data-testid": "plan-old"})
    return rx.cond(
        JobState.newer_serial >= 0,
        rx.cond(may("job.plan"), rx.fragment(old, again)),
        # To reject the plan of a pull request is a review, on its change's page.
        rx.fragment(
            rx.cond(may("job.approve") & (View["git"]["pull_request"] == ""), discard_button()),
            rx.cond(may("job.apply"), apply_it),
        ),
    )


def _again_menu() -> rx.Component:
    """Run it again: with what it had, or with what its module has now."""
    number = "#" + View["number"].to_string()
    module, is_destroy = View["module_id"].to(str), View["again_type"] == "DESTROY"
    is_changing = (View["again_type"] == "APPLY") | is_destroy
    today = rx.cond(
        is_changing,
        _kind(
            "file-search",
            "With today's source",
            "Plans again, then waits for you to confirm",
            RunState.plan_to_apply(module, is_destroy),
        ),
        _kind(
            "file-search",
            "With today's source",
            "As the module is now",
            RunState.run_now(View["again_type"].to(str), module),
        ),
    )
    same = _kind(
        "rotate-cw", "With what " + number + " had", "The same source, inputs and options", JobActionState.retry
    )
    return dropdown(
        plain_button(icon("rotate-cw"), "Run again", icon("chevron-down")),
        rx.cond(View["is_discarded"], rx.fragment(), same),
        rx.cond(module != "", today),
        width="276px",
        align="end",
    )


def _acts() -> list[rx.Component]:
    module = page_link(
        plain_button(icon("box"), "Open module"),
        href="/dashboard/modules?path=" + View["path"].to(str),
        underline="none",
        class_name="hide-s",
    )
    waiting = plain_button(
        "Cancel",
        on_click=JobActionState.cancel("GRACEFUL"),
        title="Ends it before a runner has it: nothing is changed.",
    )
    cancel = rx.cond(
        View["can_choose_cancel"],
        _cancel_menu(),
        # A member who can decide discards it, which ends it the same way.
        rx.cond(View["can_cancel"] & ~can_decide(), waiting),
    )
    retry = _again_menu()
    # A job about a runner is an admin's to run again, as everything about runners is.
    may_run = rx.match(
        View["again_type"], ("APPLY", may("job.apply")), ("DESTROY", may("job.apply")), ("STATE", may("job.apply")),
        may("job.plan"),
    )  # fmt: skip
    may_retry = rx.cond(View["module_id"] != "", may_run, SessionState.can_admin)
    return [
        rx.cond(View["module_id"] != "", module),
        rx.cond(may("job.cancel"), cancel),
        rx.cond(View["can_retry"] & may_retry, retry),
        rx.cond(View["can_apply"], _plan_act()),
    ]


def _not_isolated() -> rx.Component:
    return pill(
        icon("circle-slash", "xs"),
        "Not isolated",
        color="amber",
        title="Its runner runs jobs without a sandbox: the job can read what the runner's user can.",
        custom_attrs={"data-testid": "not-isolated"},
    )


def job_head() -> rx.Component:
    path = rx.cond(
        View["module_id"] != "",
        page_link(
            View["path"],
            href="/dashboard/modules?path=" + View["path"].to(str),
            class_name="ry-mono ry-a",
            style={"font_weight": "400"},
        ),
        rx.el.span(View["path"], class_name="ry-mono"),
    )
    stopping = rx.cond(View["cancelling"] != "", rx.el.span(View["cancelling"], class_name="ry-why"))
    return rx.el.div(
        rx.el.div(
            rx.el.div(
                rx.el.h1(rx.el.span("#", View["number"], class_name="num"), " ", View["title"]),
                job_badge(View["status"].to(str)),
                rx.cond(View["is_open"], _not_isolated()),
                stopping,
                class_name="ry-row ry-wraps",
            ),
            rx.el.p(path),
        ),
        rx.el.div(*_acts(), class_name="ry-acts"),
        class_name="ry-head",
    )


def _runner() -> rx.Component:
    link = page_link(View["runner"], href="/dashboard/runners/" + View["worker_id"].to(str), class_name="ry-a")
    none = rx.cond(View["ended_at"] != "", "none", "none yet")
    instance = rx.cond(View["instance"] != "", rx.el.span(" / ", View["instance"], class_name="mut"))
    return rx.cond(View["runner"] != "", rx.fragment(link, instance), rx.el.span(none, class_name="mut"))


def _lease() -> rx.Component:
    renewed = fact("Heartbeat", rx.el.span(ago(JobState.lease_at), class_name="num"))
    lost = fact("Last sign", rx.el.span(clock_seconds(View["lost_at"].to(str)), class_name="num t-red"))
    return rx.cond(
        View["status"] == "NEEDS_ATTENTION",
        rx.cond(View["lost_at"] != "", lost),
        rx.cond(JobState.lease_at != "", renewed),
    )


def _job_fact(label: str, key: str) -> rx.Component:
    number = View[key].to_string()
    custom = {"data-testid": key}
    link = number_link(number, custom_attrs=custom)
    return rx.cond(View[key].to(int) > 0, fact(label, link))


def _git_facts() -> rx.Component:
    git = View["git"].to(dict[str, str])
    author = rx.cond(git["author"] != "", rx.el.span(" by ", git["author"], class_name="mut"))
    plain = rx.el.span(git["commit"], class_name="ry-mono")
    linked = page_link(git["commit"], href=git["commit_href"], class_name="ry-a ry-mono")
    commit = fact("Commit", rx.cond(git["commit_href"] != "", linked, plain), author)
    pull = fact("Pull request", page_link(git["pull_request"], href=git["pull_href"], class_name="ry-a num"))
    return rx.fragment(rx.cond(git["commit"] != "", commit), rx.cond(git["pull_request"] != "", pull))


def job_facts() -> rx.Component:
    """Duration, runner and attempt first."""
    duration = rx.el.b(since(View["since"].to(str), View["until"].to(str)), class_name="num ry-strong")
    needs = rx.el.span(
        rx.foreach(View["labels"].to(list[str]), lambda label: tag(label, is_mono=True)), class_name="ry-row"
    )
    checked = number_link(JobState.checked_by.to_string(), custom_attrs={"data-testid": "checked-by"})
    message = rx.el.span(View["message"], custom_attrs={"data-testid": "message"})
    return rx.el.dl(
        rx.cond(View["message"] != "", fact("Message", message)),
        fact(View["time_label"], duration),
        fact("Runner", _runner()),
        fact("Attempt", rx.el.span(View["attempt"], class_name="num")),
        _lease(),
        rx.cond(View["is_waiting"], fact("Priority", View["priority"])),
        rx.cond(View["labels"].to(list[str]).length() > 0, fact("Needs", needs)),
        rx.cond(View["engine"] != "", fact("Engine", View["engine"])),
        rx.cond(View["source"] != "", fact("Source", rx.el.span(View["source"], class_name="ry-mono"))),
        _git_facts(),
        _job_fact("Applies plan", "planned_by"),
        _job_fact("Repeats", "retry_of"),
        _job_fact("Checks", "inspects"),
        rx.cond(JobState.checked_by > 0, fact("Checked by", checked)),
        fact("Requested by", View["by"]),
        class_name="ry-panel ry-facts",
    )


_TONES = {"green": "t-grn", "red": "t-red", "violet": "t-vio", "orange": "t-org", "blue": "t-blu", "cyan": "t-blu"}


def _mark(status: rx.Var[str]) -> rx.Component:
    marks = [
        (each, icon(name, "", class_name=f"{_TONES.get(color, 'mut')}{' ry-spin' if each == 'PROCESSING' else ''}"))
        for each, (name, color) in JOB_MARKS.items()
    ]
    return rx.match(status, *marks, icon("circle-dashed", "", class_name="mut"))


def _stage(stage: rx.Var[Stage]) -> rx.Component:
    look = rx.match(
        stage["status"],
        ("SUCCEEDED", "done"),
        ("NOT_STARTED", "todo"),
        ("FAILED", "over"),
        ("CANCELLED", "over"),
        "now",
    )
    times = rx.el.small(
        clock_time(stage["since"].to(str)),
        ", ",
        since(stage["since"].to(str), stage["until"].to(str)),
        class_name="sm num",
    )
    return rx.el.li(
        _mark(stage["status"].to(str)),
        rx.el.div(rx.el.b(stage["name"]), " ", rx.el.em(stage["words"]), rx.cond(stage["since"] != "", times)),
        key=stage["name"],
        class_name=look,
        custom_attrs={"data-stage": stage["name"], "data-status": stage["status"]},
    )


def stage_line() -> rx.Component:
    """The line of stages that shows how far a run got; nothing for a job that is not part of a run."""
    line = rx.el.section(
        rx.el.ol(rx.foreach(JobState.stages, _stage), class_name="ry-stages"),
        class_name="ry-panel",
        aria_label="Stages",
        custom_attrs={"data-testid": "stages"},
    )
    return rx.cond(JobState.stages.length() > 0, line)
