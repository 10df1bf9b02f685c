"""The notes on a job that went wrong: the error of a failed job, the ways out of a lost apply, and a report that came too late."""

from typing import Any

import reflex as rx

from app.frame.session import may
from app.jobs.state.actions import JobActionState
from app.jobs.state.job import JobState
from app.jobs.state.run import RunState
from app.ui.controls import act_button, icon, number_link, plain_button, small_button
from app.ui.dialog import dialog, dialog_acts
from app.ui.elements import DOWNLOAD, zoned_time
from app.ui.panel import notice

View = JobState.view


def failure() -> rx.Component:
    """The note on a failed job: why it failed, and what to do about it."""
    code = View["problem_code"].to(str)
    more = rx.el.a(code, href="/docs/reference/errors/#" + code.lower(), target="_blank", class_name="ry-link ry-mono")
    place = {"data-log-find": View["problem_place"], "data-local": "", "data-testid": "error-line"}
    in_log = small_button("Show in the log", custom_attrs=place)
    note = notice(
        "circle-x",
        rx.el.b(View["problem"]),
        " ",
        rx.el.span(View["problem_hint"], " "),
        rx.cond(code != "", more),
        tone="red",
        beside=(rx.cond(View["problem_place"] != "", in_log),),
        role="status",
    )
    return rx.cond((View["status"] == "FAILED") & (View["problem"] != ""), note)


def check_note() -> rx.Component:
    """The note on a check of a lost job: what the check compares, and what it cannot see."""
    number = View["inspects"].to_string()
    note = notice(
        "search-check",
        "It compares the state with what exists, and changes nothing. ",
        rx.el.span(
            "It cannot see what ",
            number_link(number),
            " created without recording it: look for that in its log, then go back there and choose.",
        ),
        tone="blue",
        test_id="check-note",
    )
    return rx.cond(View["inspects"].to(int) > 0, note)


def out_of_contact() -> rx.Component:
    """The note on a job whose runner is silent: the known facts, before the job counts as lost."""
    changing = rx.fragment(
        "The ", View["title"].to(str).lower(), " may still be running on ", View["runner"], "; its state is kept there."
    )
    handed_on = rx.fragment("If ", View["runner"], " does not return, another runner takes the job.")
    is_changing = (View["phase"] == "apply") | (View["phase"] == "destroy")
    note = notice(
        "unplug",
        "Out of contact since ",
        zoned_time(JobState.silent_since),
        ". ",
        rx.el.span(rx.cond(is_changing, changing, handed_on)),
        tone="amber",
        test_id="out-of-contact",
        role="status",
    )
    return rx.cond(JobState.silent_since != "", note)


def _way(icon_name: str, title: Any, text: Any, button: rx.Component) -> rx.Component:
    return rx.el.li(
        icon(icon_name, "", class_name="mut"),
        rx.el.div(rx.el.b(title, class_name="ry-medium"), rx.el.small(text), class_name="grow"),
        rx.cond(may("job.resolve"), button),
        class_name="ry-opt",
    )


def _ways() -> list[rx.Component]:
    again = View["title"].to(str) + " again"
    unseen = act_button("Run a check plan", on_click=JobActionState.check_first)
    check = rx.cond(JobState.checked_by > 0, plain_button("Check again", on_click=JobActionState.check_first), unseen)
    number = JobState.checked_by.to_string()
    checked = rx.fragment("Checked by ", number_link(number), ". Now choose.")
    release = _way(
        "lock-open",
        "Only release the lock",
        "For a state that was repaired by hand. Requires the lock's ID.",
        plain_button("Release the lock", on_click=JobActionState.ask("release_lock")),
    )
    return [
        _way(
            "search-check",
            "Check first",
            rx.cond(
                JobState.checked_by > 0, checked, "Runs a plan against the real cloud. Changes nothing. Start here."
            ),
            check,
        ),
        _way(
            "rotate-cw",
            again,
            "The next attempt takes over the state lock.",
            plain_button("Retry", on_click=JobActionState.ask("retry")),
        ),
        _way(
            "circle-check",
            "Keep the state as it is",
            "Marks the job failed, unlocks the state, keeps the log.",
            plain_button("Mark as failed and unlock", on_click=JobActionState.ask("mark_failed")),
        ),
        rx.cond(JobState.state.is_locked, release),
    ]


def _killed_ways() -> list[rx.Component]:
    check = act_button("Run a check plan", on_click=JobActionState.check_killed)
    return [
        _way(
            "search-check",
            "Check first",
            "Compares what exists with the state. Changes nothing, and cannot see resources that the state never recorded.",
            check,
        ),
        _way(
            "rotate-cw",
            "Run it again",
            rx.fragment("Resources that the killed attempt created but did not record would be created a second time."),
            plain_button("Run again", on_click=JobActionState.retry),
        ),
    ]


def _reason() -> rx.Var[str]:
    return rx.cond(View["left"] != "", " (" + View["left"].to(str) + ")", "")


def _story() -> rx.Component:
    killed = rx.fragment("It was killed", _reason(), ". ")
    # The database knows whether the runner was silent or its process ended.
    what = rx.fragment(
        View["problem"].to(str),
        " ",
        rx.cond(
            View["lost_at"] != "", rx.fragment("Last sign at ", zoned_time(View["lost_at"].to(str)), _reason(), ". ")
        ),
    )
    return rx.el.p(
        rx.cond(View["is_kill"], killed, what),
        "It was not retried automatically, because doing it twice can create resources twice. "
        "The state stays locked until you choose.",
        class_name="mut ry-story",
    )


def attention() -> rx.Component:
    """The panel of a lost or killed job: what happened, why nothing was decided automatically, then the ways out, the safe one first."""
    what = View["title"].to(str).lower()
    title = rx.cond(
        View["is_kill"],
        rx.fragment("This ", what, " was killed, so nobody knows how far it got"),
        rx.cond(
            View["problem_code"] == "OUT_OF_CONTACT",
            rx.fragment("Out of contact during ", what, ": nobody can tell yet how far it got"),
            rx.fragment("The runner was lost during ", what, ", so nobody knows how far it got"),
        ),
    )
    killed = rx.el.p(
        "It was killed",
        _reason(),
        ". Resources that it was creating may exist without being in the state. Check before the next apply.",
        class_name="mut ry-story",
    )
    return rx.cond(
        View["status"] == "NEEDS_ATTENTION",
        _attention_panel(title, _story(), _ways()),
        rx.cond(
            View["was_killed"],
            _attention_panel(title, killed, _killed_ways()),
            rx.cond(View["is_interrupted"], _interrupted()),
        ),
    )


def _interrupted() -> rx.Component:
    """The panel of an apply that failed or was stopped on the way: how far it got, and a plan of the rest."""
    what = View["title"].to(str)
    title = rx.cond(View["status"] == "FAILED", what + " failed on the way", what + " was stopped on the way")
    plan = RunState.plan_to_apply(View["module_id"].to(str), View["again_type"] == "DESTROY")
    again = act_button("Plan what is left", on_click=plan)
    way = _way("file-search", "Plan again", "Compares the code with what exists now, then waits for you.", again)
    story = rx.el.p(View["left"], ". Changes that are done are in the state.", class_name="mut ry-story")
    return _attention_panel(title, story, [way])


def _attention_panel(title: Any, story: rx.Component, ways: list[rx.Component]) -> rx.Component:
    return rx.el.section(
        rx.el.div(
            rx.el.span(icon("triangle-alert", "l"), class_name="t-org"),
            rx.el.div(rx.el.h2(title, class_name="ry-h2"), story, class_name="grow"),
            class_name="ry-attention",
        ),
        rx.el.ul(*ways, class_name="ry-list"),
        class_name="ry-panel ry-orange",
        custom_attrs={"data-accent-color": "orange", "data-testid": "attention"},
        aria_label="Needs attention",
    )


def late_report() -> rx.Component:
    """The note on a runner that returned after its lease had expired."""
    note = notice(
        "info",
        View["runner"],
        " returned",
        rx.cond(JobState.late_at != "", rx.fragment(" at ", zoned_time(JobState.late_at)), ""),
        " and reported ",
        rx.cond(JobState.late_status != "", JobState.late_status, "a result"),
        ". ",
        rx.el.span("Reported after the lease expired: recorded, not applied."),
        tone="blue",
        beside=(
            rx.cond(JobState.late_attempt > 0, _late_log()),
            small_button("See the report", on_click=JobActionState.show_late(True)),
        ),
    )
    return rx.cond(JobState.late != "", rx.fragment(note, _late_dialog()))


def _late_log() -> rx.Component:
    """The log of that attempt, with the lines that arrived after a person had released it."""
    attempt = JobState.late_attempt.to_string()
    return rx.el.a(
        "Download the log of attempt " + attempt,
        href="/api/jobs/" + View["id"].to_string() + "/log.txt?attempt=" + attempt,
        class_name="ry-link",
        custom_attrs={"data-testid": "late-log", **DOWNLOAD},
    )


def slimmed() -> rx.Component:
    """The note that lists the removed details of an old job."""
    note = notice(
        "archive",
        "Details were removed 90 days after it ended. ",
        rx.el.span("Its source, steps, plan and outputs are past their retention period; its events stay."),
        tone="gray",
        test_id="slimmed",
    )
    return rx.cond(View["slimmed_at"] != "", note)


def _late_dialog() -> rx.Component:
    return dialog(
        "Late report",
        "The runner's report, sent after the job was taken from it. It changed nothing.",
        rx.el.div(rx.el.pre(JobState.late, tab_index=0), class_name="ry-code ry-dialog-field"),
        dialog_acts(rx.dialog.close(plain_button("Close"))),
        is_open=JobActionState.is_late_open,
        on_open_change=JobActionState.show_late,
        width="640px",
    )
