"""The signed record of a run's change, beside its log."""

import reflex as rx

from app.jobs.state.job import JobState
from app.ui.elements import DOWNLOAD, date, doc_link
from app.ui.icons import icon
from app.ui.panel import titled_panel


def record() -> rx.Component:
    """Whether the record is signed and its chain complete, and the file to verify; nothing for a run without one."""
    found = JobState.record
    download = rx.el.a(
        icon("download"),
        "Download",
        href="/api/jobs/" + JobState.view["id"].to_string() + "/record.dsse.json",
        class_name="rt-reset rt-BaseButton rt-r-size-1 rt-variant-ghost rt-Button",
        custom_attrs={"data-accent-color": "gray", "data-testid": "signed-record", **DOWNLOAD},
    )
    mark = rx.match(
        found["tone"],
        ("signed", icon("shield-check", class_name="t-grn")),
        ("broken", icon("circle-x", class_name="t-red")),
        icon("circle-dashed", class_name="mut"),
    )
    since = rx.cond(found["since"] != "", date(found["since"].to(str)))
    words = rx.el.div(
        rx.el.span(found["words"], since),
        rx.el.small(found["place"], ". ", doc_link("Verify it yourself", "records")),
        class_name="grow",
    )
    panel = titled_panel(
        "Record",
        (rx.el.span(class_name="grow"), rx.cond(found["tone"] == "signed", download)),
        rx.el.ul(rx.el.li(mark, words), class_name="ry-list", custom_attrs={"data-testid": "record-status"}),
    )
    return rx.cond(found["tone"] != "", panel)
