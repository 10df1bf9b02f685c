"""Lists of things, declared: their columns, what can be done with a row, the table, the panel and the question before one goes.

A page of such a list is one `resource_panel(…)`; a cell that no function here makes is a function of its row.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import reflex as rx

from app.ui.dialog import question
from app.ui.elements import ago
from app.ui.panel import menu, menu_item, or_problem, settings_panel, skeleton_rows
from app.ui.table import cell, heads, table

Cell = Callable[[Any], Any]
# The classes of a cell that its head has, too: its side, its width, and where there is no room for it.
OF_HEADS = frozenset({"r", "hide-s", "hide-w", "hide-m", "hide-n", "only-s", "c-s", "c-m", "c-l", "c-xl"})


@dataclass(frozen=True)
class Column:
    """One column: its head, the field or the function of a row that it shows, the classes of its cells."""

    label: str
    content: str | Cell
    class_name: str = ""
    props: Callable[[Any], dict[str, Any]] = field(default=lambda _row: {})
    when: Any = None

    @property
    def head(self) -> tuple[Any, ...]:
        """Its label and classes in the head, and for whom it is shown."""
        classes = " ".join(name for name in self.class_name.split() if name in OF_HEADS)
        return (self.label, classes) if self.when is None else (self.label, classes, self.when)

    def cell(self, row: Any) -> rx.Component:
        """Its cell in a row."""
        shown = row[self.content] if isinstance(self.content, str) else self.content(row)
        made = cell(shown, class_name=self.class_name, **self.props(row))
        return made if self.when is None else rx.cond(self.when, made)


def strong(key: str) -> Cell:
    """Show a field as the row's name."""
    return lambda row: rx.el.b(row[key], class_name="ry-medium")


def mono(key: str, class_name: str = "", title: str = "") -> Cell:
    """Show a field as code, with another one as its tooltip."""
    tooltip = (lambda row: {"title": row[title]}) if title else lambda _row: {}
    return lambda row: rx.el.span(row[key], class_name=f"ry-mono {class_name}".strip(), **tooltip(row))


def moment(key: str, element: Callable[..., rx.Component] = ago) -> Cell:
    return lambda row: element(row[key].to(str))


@dataclass(frozen=True)
class Act:
    """One act on a row: `event` takes the row's id; a dangerous one is red and stands apart."""

    icon: str
    label: Any
    event: Callable[[Any], Any]
    when: Callable[[Any], Any] | None = None
    is_danger: bool = False

    def item(self, row: Any) -> rx.Component:
        """Its entry in the row's menu."""
        label = self.label(row) if callable(self.label) else self.label
        props = {"color_scheme": "red"} if self.is_danger else {}
        entry = menu_item(self.icon, label, self.event(row["id"].to(str)), **props)
        shown = rx.fragment(rx.dropdown_menu.separator(), entry) if self.is_danger else entry
        return shown if self.when is None else rx.cond(self.when(row), shown)


def row_menu(*acts: Act, may: Any = None) -> Cell:
    """The menu of a row; `may` hides it from those who may do nothing."""

    def shown(row: Any) -> rx.Component:
        entries = menu("More actions for " + row["name"].to(str), *(act.item(row) for act in acts))
        return entries if may is None else rx.cond(may(row) if callable(may) else may, entries)

    return shown


def _row(columns: Sequence[Column], mark: Callable[[Any], dict[str, Any]], key: str = "id") -> Cell:
    return lambda row: rx.el.tr(
        *(column.cell(row) for column in columns), role="row", key=row[key], custom_attrs=mark(row)
    )


def by_id(row: Any) -> dict[str, Any]:
    """Mark a row for tests and scripts by its id."""
    return {"data-row": row["id"]}


def unmarked(_row: Any) -> dict[str, Any]:
    """Mark no row."""
    return {}


def rows_table(
    title: str, columns: Sequence[Column], rows: Any, mark: Any = by_id, *, key: str = "id", **props: Any
) -> rx.Component:
    """A table of rows, without a placeholder."""
    body = rx.foreach(rows, _row(columns, mark, key))
    return table(title, heads(*(each.head for each in columns)), body, **props)


def waiting_table(
    waiting: Any,
    rows: Any,
    title: str,
    columns: Sequence[Column],
    none: Any,
    *,
    mark: Any = by_id,
    key: str = "id",
    skeleton: int = 3,
    look: dict[str, Any] | None = None,
) -> rx.Component:
    """The table of rows, or its placeholder while they are awaited or there are none."""
    labels = [column.head for column in columns]
    body = rx.cond(waiting, skeleton_rows(labels, skeleton), rx.foreach(rows, _row(columns, mark, key)))
    shown = table(title, heads(*labels), body, aria_busy=waiting, **(look or {}))
    return rx.cond(waiting | (rows.length() > 0), shown, none)


def resource_panel(
    state: Any,
    title: str,
    about: str,
    columns: Sequence[Column],
    none: rx.Component,
    *above: rx.Component,
    add: rx.Component | None = None,
    foot: rx.Component | None = None,
    **options: Any,
) -> rx.Component:
    """A panel with a title, one sentence, the button that adds a row, and the table."""
    name = options.pop("table", title)
    waiting = state.is_loading & (state.rows.length() == 0)
    shown = or_problem(state, name, waiting_table(waiting, state.rows, name, columns, none, **options))
    below = () if foot is None else (foot,)
    return settings_panel(title, about, rx.fragment() if add is None else add, *above, shown, *below)


def removal(state: Any, verb: str, text: Any, act: str) -> rx.Component:
    """The question before a row goes."""
    title = rx.fragment(f"{verb} ", state.removing_name, "?")
    return question(
        is_open=state.removing != "", title=title, text=text, act=act, on_act=state.remove, on_keep=state.keep
    )
