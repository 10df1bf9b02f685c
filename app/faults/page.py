"""Break something: what may be broken, what happens now in sentences, and the ledger beside it."""

import reflex as rx

from app.faults.offer import PAGE
from app.faults.state import FaultsState
from app.faults.view import KINDS, Count, Step
from app.frame.layout import head, page
from app.frame.route import Route
from app.ui.elements import doc_link
from app.ui.feedback import empty
from app.ui.icons import icon
from app.ui.panel import or_problem

NOT_HERE = (
    "Faults exist in the demo organisation that “make up” or “runyard up” starts on its own machine, because everywhere "
    "else the runners, the jobs and the database belong to somebody."
)


def _button(kind: str, icon_name: str, words: str) -> rx.Component:
    return rx.button(
        icon(icon_name),
        words,
        on_click=FaultsState.break_it(kind),
        disabled=FaultsState.faults["is_running"] | ~FaultsState.may_break,
        variant="surface",
        color_scheme="gray",
        size="1",
        custom_attrs={"data-testid": f"break-{kind}"},
    )


def _step(step: rx.Var[Step], index: rx.Var[int]) -> rx.Component:
    is_now = FaultsState.faults["is_running"] & (index == FaultsState.faults["steps"].to(list[Step]).length() - 1)
    mark = rx.cond(is_now, icon("loader-circle", class_name="t-blu ry-spin"), icon("circle-check", class_name="mut"))
    return rx.el.li(
        mark, rx.el.span(step["text"], class_name="grow"), rx.el.span(step["after"], class_name="mut num"), key=index
    )


def _ending() -> rx.Component:
    well = rx.el.div(
        icon("circle-check", class_name="t-grn"), rx.el.b("Recovered automatically."), class_name="ry-row c6"
    )
    ill = rx.el.div(
        icon("circle-x", class_name="t-red"), rx.el.b("It did not recover as it should."), class_name="ry-row c6"
    )
    return rx.el.div(
        rx.match(FaultsState.faults["ended"], ("recovered", well), ("not recovered", ill), rx.fragment()),
        role="status",
        custom_attrs={"data-testid": "fault-ended", "data-ended": FaultsState.faults["ended"]},
    )


def _bar() -> rx.Component:
    left = FaultsState.faults["left"]
    moving = rx.el.div(
        rx.el.div(rx.el.span(left, class_name="num mut"), class_name="ry-row"),
        rx.el.div(rx.el.i(style={"width": FaultsState.faults["done"]}), class_name="ry-prog"),
    )
    return rx.cond(left != "", moving, rx.fragment())


def _what() -> rx.Component:
    steps = rx.foreach(FaultsState.faults["steps"].to(list[Step]), _step)
    job = FaultsState.faults["job"]
    link = rx.link("Open job ", job, href="/dashboard/jobs/" + job.to_string())
    owner_only = rx.el.p("Only an owner of the demo organisation may break something.", class_name="mut sm")
    return rx.el.div(
        rx.el.div(*[_button(*kind) for kind in KINDS], class_name="ry-acts"),
        rx.cond(FaultsState.may_break, rx.fragment(), owner_only),
        rx.el.ul(steps, class_name="ry-steps", custom_attrs={"data-testid": "fault-steps"}, aria_live="polite"),
        _bar(),
        _ending(),
        rx.cond(job > 0, link, rx.fragment()),
        class_name="ry-fault",
    )


def _count(count: rx.Var[Count]) -> rx.Component:
    return rx.el.div(
        rx.el.dt(count["label"]),
        rx.el.dd(count["count"], class_name=rx.cond(count["is_broken"], "num t-red", "num")),
        rx.el.dd(count["of"], class_name="of num"),
        custom_attrs={"data-testid": "count-" + count["key"].to(str), "data-count": count["count"]},
        key=count["key"],
    )


def _ledger() -> rx.Component:
    old = rx.cond(FaultsState.faults["is_old"], " The database is down: these are its last figures.", "")
    return rx.el.div(
        rx.el.div(
            rx.el.b("Ledger since the first drill", class_name="grow"),
            rx.el.span(FaultsState.faults["said"], old, class_name="mut num"),
            class_name="ry-row",
        ),
        rx.el.dl(rx.foreach(FaultsState.faults["counts"].to(list[Count]), _count), class_name="ry-zero"),
        rx.el.p("Counted by the database over all stored rows; each must be 0.", class_name="mut sm"),
    )


def _panel() -> rx.Component:
    return rx.el.section(
        rx.el.div(_what(), _ledger(), class_name="ry-chaos"), class_name="ry-panel", aria_label="Break something"
    )


def break_something() -> rx.Component:
    """The page."""
    nothing = rx.el.section(
        empty("shield", "Nothing may be broken here", NOT_HERE),
        class_name="ry-panel",
        custom_attrs={"data-testid": "no-faults"},
    )
    shown = rx.cond(FaultsState.is_here, _panel(), rx.cond(FaultsState.is_loading, rx.fragment(), nothing))
    text = rx.fragment(
        "Real faults on the demo's own runner and database, with jobs that change nothing. ",
        doc_link("What is counted", "break-something"),
    )
    return page(
        head("Break something", text),
        or_problem(FaultsState, "Faults", shown),
        title="Break something",
        active="runners",
        crumbs=[("Runners", "/dashboard/runners")],
    )


ROUTES = (Route(PAGE, "Break something", break_something, [FaultsState.load, FaultsState.follow]),)
