"""The repository of a module: branch, watched paths, and the commits seen and applied."""

import reflex as rx

from app.modules.state.repository import RepositoryState
from app.ui.elements import ago

Repository = RepositoryState.repository


def _path(path: rx.Var[str]) -> rx.Component:
    return rx.el.span(path, class_name="ry-mono ry-breaks", style={"display": "block"})


def _commit(key: str, none: str) -> rx.Component:
    known = rx.fragment(
        rx.link(Repository[key], href=Repository[f"{key}_href"].to(str), class_name="ry-a ry-mono"),
        rx.el.span(", ", ago(Repository[f"{key}_at"].to(str)), class_name="mut"),
    )
    return rx.cond(Repository[key] != "", known, rx.el.span(none, class_name="mut"))


def _pair(label: str, value: rx.Component) -> rx.Component:
    return rx.fragment(rx.el.dt(label), rx.el.dd(value))


def repository() -> rx.Component:
    """Shown where the repository of the module's source is connected."""
    note = rx.el.p(Repository["note"], class_name="ry-pb ry-hint")
    panel = rx.el.section(
        rx.el.div(
            rx.el.h2("Repository"),
            rx.el.span(class_name="grow"),
            rx.link("Deliveries", href="/dashboard/settings/git", class_name="ry-link", underline="none"),
            class_name="ry-ph",
        ),
        rx.el.div(
            rx.el.dl(
                _pair("Connected", rx.el.span(Repository["name"], class_name="ry-mono ry-breaks")),
                _pair("Branch", rx.el.span(Repository["branch"], class_name="ry-mono ry-breaks")),
                _pair("Watches", rx.foreach(Repository["watched"].to(list[str]), _path)),
                _pair("Applies", rx.el.span(Repository["applies"])),
                _pair("Seen", _commit("seen", "Not read yet")),
                _pair("Applied", _commit("applied", "None yet")),
                rx.cond(Repository["ahead"] != "", _pair("Ahead", rx.el.span(Repository["ahead"])), rx.fragment()),
                class_name="ry-dl",
            ),
            class_name="ry-pb",
        ),
        rx.cond(Repository["note"] != "", note, rx.fragment()),
        class_name="ry-panel",
        aria_label="Repository",
    )
    return rx.cond(Repository["name"] != "", panel, rx.fragment())
