"""Below a module's facts: its jobs as a chart, its resources, files, outputs and locks."""

import reflex as rx

from app.frame.session import may
from app.jobs.components.rail import output_item
from app.modules.state.actions import ModuleActionState
from app.modules.state.contents import ModuleContentsState
from app.modules.state.modules import ModulesState
from app.modules.view.contents import DRIFTED, Bar, Evidence, ResourceRow, TypeCount
from app.ui.badges import pill
from app.ui.controls import icon, page_link, small_button
from app.ui.elements import OwnElement, ago
from app.ui.panel import notice, titled_panel
from app.ui.resource import Column, mono, rows_table, unmarked
from app.ui.table import more_foot

State = ModuleContentsState


class SourceElement(OwnElement):
    """`<ry-source name text>`: a file with line numbers and colours, made in the browser."""

    tag = "RySource"
    name: rx.Var[str]
    text: rx.Var[str]


def _bar(bar: rx.Var[Bar]) -> rx.Component:
    return page_link(
        rx.el.span(bar["title"], class_name="sr"),
        href=bar["href"],
        class_name=bar["style"].to(str),
        style={"height": bar["height"]},
        title=bar["title"],
    )


def history_chart() -> rx.Component:
    """The chart of the last jobs: how long each took and, by colour and by shape, how it ended."""
    axis = rx.el.span(
        rx.el.span(State.chart.most),
        rx.el.span(State.chart.half),
        rx.el.span("0"),
        class_name="y num",
        aria_hidden="true",
    )
    bars = rx.el.div(rx.foreach(State.chart.bars, _bar), class_name="bars", role="group", aria_label=State.chart.words)
    foot = rx.el.div(
        rx.el.span(State.chart.counts),
        rx.el.span(class_name="grow"),
        rx.el.span("Median ", State.chart.middle, class_name="num"),
        class_name="ry-foot",
    )
    shown = rx.fragment(rx.el.div(axis, bars, class_name="ry-hist", custom_attrs={"data-testid": "chart"}), foot)
    return rx.cond(State.chart.bars.length() > 0, shown)


def _type(each: rx.Var[TypeCount]) -> rx.Component:
    return rx.el.li(
        rx.el.span(each["name"], class_name="ry-mono ry-el"),
        rx.el.span(rx.el.i(style={"width": each["share"]}), class_name="m", aria_hidden="true"),
        rx.el.span(each["number"], class_name="num"),
    )


def _drift(row: rx.Var[ResourceRow]) -> rx.Component:
    drifted = pill(icon("arrow-right-left", "xs"), row["drift"], color="amber")
    return rx.cond(row["drift"] == DRIFTED, drifted, rx.el.span(row["drift"], class_name="mut"))


RESOURCES = (
    Column("Address", mono("address", "ry-breaks"), "n-a"),
    Column("Drift", _drift, "n-b"),
    Column("ID", lambda row: rx.el.div(row["id"], class_name="ry-mono ry-el mut", title=row["id"]), "n-c"),
)


def _filter() -> rx.Component:
    return rx.input(
        rx.input.slot(icon("search")),
        # Another module begins without one.
        key=ModulesState.module["id"],
        default_value=State.search,
        on_change=State.search_for.debounce(150),
        placeholder="Filter by address or type",
        aria_label="Filter resources by address or type",
        auto_complete="off",
        class_name="ry-res-filter",
        custom_attrs={"spellCheck": "false", "data-testid": "resource-filter"},
    )


def _resource_table() -> rx.Component:
    rows, look = State.contents.resources, {"class_name": "ry-res", "is_reached_by_keys": True}
    none = rx.el.div("No resources match.", class_name="ry-pb mut")
    return rx.cond(rows.length() > 0, rows_table("Resources", RESOURCES, rows, unmarked, key="address", **look), none)


def resources() -> rx.Component:
    found = State.contents
    many = rx.cond(found.total == 1, "1 in the state", found.total.to_string() + " in the state")
    listed = rx.fragment(
        rx.el.ul(rx.foreach(found.types, _type), class_name="ry-types"),
        _resource_table(),
        more_foot(found.more, State.is_all, State.show_all),
    )
    none = rx.el.div("None yet. The first apply creates them.", class_name="ry-pb mut")
    return titled_panel(
        "Resources",
        rx.fragment(
            rx.el.span(many, class_name="mut num"), rx.el.span(class_name="grow"), rx.cond(found.total > 0, _filter())
        ),
        rx.cond(found.total > 0, listed, none),
        custom_attrs={"data-testid": "resources"},
    )


def outputs() -> rx.Component:
    """The panel of the state's outputs; a sensitive value is named, never shown."""
    panel = titled_panel(
        "Outputs",
        rx.el.span(State.contents.outputs.length(), class_name="mut num"),
        rx.el.ul(rx.foreach(State.contents.outputs, output_item), class_name="ry-list"),
        custom_attrs={"data-testid": "outputs"},
    )
    return rx.cond(State.contents.outputs.length() > 0, panel)


def source_files() -> rx.Component:
    shown = SourceElement.create(name=State.file, text=State.text, class_name="ry-lb ry-src")
    triggers = rx.foreach(State.files, lambda file: rx.tabs.trigger(file["name"], value=file["name"]))
    tabs = rx.tabs.root(
        rx.el.div(rx.tabs.list(triggers), class_name="ry-srct"),
        rx.tabs.content(shown, value=State.file),
        value=State.file,
        on_change=State.show_file,
    )
    section = rx.el.section(
        rx.el.script(src="/source.js", type="module", custom_attrs={"async": True}),
        rx.el.div(rx.el.h2("Files", class_name="ry-h2"), class_name="ry-lt"),
        tabs,
        class_name="ry-log",
        aria_label="Files",
        custom_attrs={"data-testid": "source"},
    )
    return rx.cond(State.files.length() > 0, section)


def _mark(weighs: rx.Var[str]) -> rx.Component:
    return rx.match(
        weighs,
        ("for", icon("circle-check", class_name="t-grn", aria_label="for")),
        ("against", icon("circle-x", class_name="t-red", aria_label="against")),
        icon("circle-help", class_name="t-amb", aria_label="unclear"),
    )


def _line(line: rx.Var[Evidence]) -> rx.Component:
    at = rx.cond(line["at"] != "", rx.el.em(ago(line["at"].to(str)), class_name="num"), rx.el.em())
    return rx.el.li(_mark(line["weighs"].to(str)), rx.el.span(line["text"]), at)


def _engine_lock() -> rx.Component:
    """The panel of the state lock: the evidence, then the verdict, then the button that breaks it."""
    lock = ModulesState.state
    act = small_button(
        "Break lock",
        on_click=ModuleActionState.ask("unlock"),
        color_scheme=rx.cond(State.lock.verdict == "unsafe", "red", "gray"),
    )
    return titled_panel(
        "State lock",
        rx.el.span("#", lock.lock_job, ", attempt ", lock.lock_attempt, class_name="mut num"),
        rx.el.ul(rx.foreach(State.lock.evidence, _line), class_name="ry-ev2"),
        rx.el.div(
            rx.el.p(State.lock.words),
            rx.cond(may("state.write"), act),
            class_name="ry-verdict",
            custom_attrs={"data-accent-color": State.lock.colour, "data-verdict": State.lock.verdict},
        ),
        custom_attrs={"data-testid": "lock-evidence"},
    )


def locks() -> rx.Component:
    """The locks that keep the module from being changed: an attempt's, or a person's."""
    unlock = small_button("Unlock", on_click=ModuleActionState.unlock_it)
    person = notice(
        "lock",
        rx.el.b("Locked by ", State.lock.by, style={"font_weight": "600"}),
        ": ",
        State.lock.reason,
        rx.el.span(" · Nothing can be applied until it is unlocked."),
        tone="amber",
        beside=(rx.cond(may("module.lock"), unlock),),
        test_id="module-lock",
    )
    return rx.fragment(rx.cond(State.lock.by != "", person), rx.cond(State.lock.is_held, _engine_lock()))
