"""The runners page: alert, tiles, filter, table, active jobs."""

from typing import Any

import reflex as rx

from app.frame.layout import RUNNERS, Route, head, new_button, page, whole_tabs
from app.frame.releases.state import ReleaseNotesState
from app.frame.session import SessionState
from app.runners.components.active_jobs import active_jobs
from app.runners.components.bulk import bulk_question
from app.runners.components.cloud_form import cloud_footer, cloud_tab
from app.runners.components.edit import edit_dialog
from app.runners.components.filters import chips
from app.runners.components.first_steps import first_steps
from app.runners.components.rollout import abort_question, rollout_panel
from app.runners.components.self_form import self_footer, self_tab
from app.runners.components.table import runners_table
from app.runners.components.tiles import tiles
from app.runners.state.actions import RunnerActionState
from app.runners.state.add_runner import AddRunnerState
from app.runners.state.bulk import BulkState
from app.runners.state.first_steps import FirstStepsState
from app.runners.state.runners import RunnersState
from app.ui.controls import act_button, icon, plain_button, quiet_button, small_button
from app.ui.dialog import alert, cancel, dialog_acts, sheet
from app.ui.elements import doc_link
from app.ui.panel import notice
from app.ui.table import search_box

# While nobody has counted them yet, the page has the look that it has most of the time.
HAS_RUNNERS = ~SessionState.is_counted | (SessionState.runner_count > 0)


def _head() -> rx.Component:
    notes = plain_button(
        icon("megaphone"),
        "Release notes",
        rx.el.span(SessionState.latest_version, class_name="ry-n"),
        on_click=ReleaseNotesState.show(""),
        class_name="hide-s",
    )
    add = new_button("plus", "Add runner", AddRunnerState.open_sheet)
    text = rx.fragment(
        "Your machines that run Terraform, OpenTofu and Pulumi. ",
        doc_link("How runners work", "runner-agent"),
        rx.el.span(" · ", aria_hidden="true"),
        doc_link("Scale to zero", "scale-to-zero"),
    )
    # An empty organisation has one act: that of its first step, or of the empty table.
    return head("Runners", text, notes, rx.cond(SessionState.can_admin & HAS_RUNNERS, add))


def _how_they_update() -> rx.Component:
    """Explain what happens automatically: most self-hosted runners are updated by hand, where they run."""
    by_hand, by_job = SessionState.outdated_count - SessionState.outdated_by_job, SessionState.outdated_by_job
    one_by_hand = " is updated by hand, on its own machine."
    hand = rx.cond(by_hand == 1, one_by_hand, " are updated by hand, on their own machines.")
    job = rx.cond(by_job == 1, " finishes its jobs, then updates. ", " finish their jobs, then update. ")
    is_one = SessionState.outdated_count == 1
    first = rx.cond(by_job > 0, rx.cond(is_one, "It", by_job.to_string()) + job, "")
    rest = rx.cond(by_hand > 0, rx.cond(is_one, "It", by_hand.to_string()) + hand, "")
    return rx.el.span(first, rest, custom_attrs={"data-testid": "how-they-update"})


def _outdated_words() -> rx.Component:
    is_one = SessionState.outdated_count == 1
    return rx.el.p(
        rx.cond(
            is_one, "1 runner is older than ", SessionState.outdated_count.to_string() + " runners are older than "
        ),
        rx.el.b(SessionState.latest_version, style={"font_weight": "600"}),
        ". ",
        _how_they_update(),
        custom_attrs={"data-testid": "outdated", "data-count": SessionState.outdated_count},
    )


def _alert_actions() -> rx.Component:
    update = small_button(
        f"Update all ({SessionState.outdated_by_job})", on_click=RunnerActionState.ask("update_all", "")
    )
    by_hand = small_button("How to update", on_click=RunnerActionState.ask("update_by_hand", ""))
    offered = rx.cond(SessionState.outdated_by_job > 0, update, by_hand)
    is_offered = SessionState.can_admin & (RunnersState.rollout["id"] == "")
    return rx.cond(is_offered, offered)


def _alert() -> rx.Component:
    release_notes = quiet_button("What is new", on_click=ReleaseNotesState.show(""))
    note = rx.el.div(
        icon("circle-arrow-up", ""),
        _outdated_words(),
        release_notes,
        _alert_actions(),
        class_name="ry-note",
        role="status",
        custom_attrs={"data-accent-color": "amber"},
    )
    return rx.cond(SessionState.outdated_count > 0, note)


def _preparing() -> rx.Component:
    """Explain why nothing runs yet, to anyone who has just started everything for the first time."""
    rest = rx.el.span("Jobs that need it wait, and start automatically as soon as it is ready.")
    mark = icon("loader-circle", class_name="ry-spin")
    note = notice(mark, RunnersState.preparing, ". ", rest, tone="blue", role="status")
    return rx.cond(RunnersState.preparing != "", note)


def _filter_item(label: str, value: str) -> rx.Component:
    counts: Any = RunnersState.counts
    return rx.segmented_control.item(
        rx.el.span(label, class_name="ry-word"),
        rx.el.span(counts["all" if value == "ALL" else value], class_name="ry-n"),
        value=value,
    )


def _filter() -> rx.Component:
    return rx.segmented_control.root(
        _filter_item("All", "ALL"),
        *[_filter_item(status, status) for status in ("ONLINE", "DRAINING", "OFFLINE")],
        value=RunnersState.status,
        on_change=RunnersState.filter_by,
        aria_label="Status",
    )


def _bar() -> rx.Component:
    label, state = "Search by name or label", RunnersState
    search = search_box("runner-search", label, state.search_for, state.clear_search, value=state.search)
    return rx.el.div(_filter(), rx.el.span(class_name="grow hide-s"), search, class_name="ry-bar")


def runners() -> rx.Component:
    return page(
        _head(),
        whole_tabs("Runners", RUNNERS, "Runners"),
        first_steps(AddRunnerState.open_sheet),
        _alert(),
        _preparing(),
        rollout_panel(),
        rx.cond(HAS_RUNNERS, rx.fragment(tiles(), _bar(), chips())),
        runners_table(),
        rx.cond(HAS_RUNNERS | (RunnersState.job_count > 0), active_jobs()),
        title="Runners",
        active="runners",
        dialogs=[
            add_runner_sheet(),
            edit_dialog(),
            abort_question(),
            rx.cond(SessionState.can_operate, bulk_question()),
        ],
    )


def _tabs() -> rx.Component:
    return rx.tabs.root(
        rx.tabs.list(
            rx.tabs.trigger("Cloud-hosted", value="cloud"),
            rx.tabs.trigger("Self-hosted", value="self"),
            style={"padding": "0 4px"},
        ),
        rx.tabs.content(cloud_tab(), value="cloud", class_name="ry-sb"),
        rx.tabs.content(self_tab(), value="self", class_name="ry-sb"),
        value=AddRunnerState.tab,
        on_change=AddRunnerState.set_tab,
        class_name="ry-sheet-tabs",
    )


def _asking() -> rx.Component:
    back = act_button("Back to the token", on_click=AddRunnerState.keep_open)
    return alert(
        "Close without copying the token?",
        "It is not shown again. Without it the runner has to be registered again, or its token rotated.",
        dialog_acts(back, cancel(AddRunnerState.close_anyway, "Close anyway")),
        is_open=AddRunnerState.is_asking,
        on_escape=AddRunnerState.keep_open,
    )


def add_runner_sheet() -> rx.Component:
    """The add-runner sheet; it never closes automatically, since it shows a token once."""
    foot = rx.cond(AddRunnerState.tab == "cloud", cloud_footer(), self_footer())
    about = "A runner takes jobs for the modules you assign to it."
    return rx.fragment(sheet(AddRunnerState, AddRunnerState.is_open, "Add runner", about, _tabs(), foot), _asking())


ROUTES = (
    Route(
        "/dashboard/runners",
        "Runners",
        runners,
        [
            AddRunnerState.come_back,
            BulkState.clear,
            RunnersState.load,
            AddRunnerState.open_for_path,
            FirstStepsState.load,
        ],
    ),
)
