"""The release notes dialog; notes are Markdown that can carry no script."""

from typing import Any

import reflex as rx

from app.frame.releases.files import RunnerFile
from app.frame.releases.state import ReleaseNotesState
from app.frame.session import SessionState
from app.ui.badges import pill
from app.ui.controls import copy_icon, icon_button, small_button
from app.ui.elements import ago

State = ReleaseNotesState


def _link(*children: Any, **props: Any) -> rx.Component:
    return rx.el.a(*children, target="_blank", rel="noopener noreferrer nofollow", **props)


def _no_image(*children: Any, **props: Any) -> rx.Component:
    """Show no image: it would be a request to wherever the notes point."""
    return rx.el.span()


PLAIN: dict[str, Any] = {
    **{f"h{level}": rx.el.h2 for level in range(1, 7)},
    "p": rx.el.p,
    "ul": rx.el.ul,
    "ol": rx.el.ol,
    "li": rx.el.li,
    "code": rx.el.code,
    "pre": rx.el.pre,
    "a": _link,
    "img": _no_image,
}


def notes_markdown(text: rx.Var[str]) -> rx.Component:
    """Render untrusted Markdown: raw HTML in it stays text, and it loads nothing from anywhere."""
    return rx.markdown(
        text,
        use_raw=False,
        use_math=False,
        use_katex=False,
        use_unwrap_images=False,
        component_map=PLAIN,
        class_name="ry-md",
    )


def _version(item: Any) -> rx.Component:
    return rx.el.button(
        item["version"],
        rx.el.span(item["runner_count"], class_name="ry-n", title="Runners with this version"),
        on_click=State.choose(item["version"]),
        class_name="rt-reset ry-nav num",
        aria_current=rx.cond(item["version"] == State.chosen["version"], "true", "false"),
        key=item["version"],
    )


def _files() -> rx.Component:
    files = State.chosen["files"].to(list[RunnerFile])
    listed = rx.el.section(rx.el.h2("Files and their SHA-256"), file_list(files), class_name="ry-md ry-note-files")
    return rx.cond(files.length() > 0, listed)


def _chosen(on_update: rx.event.EventSpec) -> rx.Component:
    chosen = State.chosen
    update = small_button("Update the outdated runners", on_click=[State.set_open(False), on_update])
    return rx.el.div(
        rx.el.div(
            rx.el.b(chosen["version"], class_name="num ry-note-version"),
            rx.cond(chosen["is_latest"], rx.badge("latest", radius="full")),
            rx.cond(chosen["is_breaking"], pill("breaking", color="orange")),
            rx.cond(chosen["channel"] != "stable", rx.badge(chosen["channel"], color_scheme="gray")),
            ago(chosen["published_at"], class_name="mut"),
            class_name="ry-row",
        ),
        notes_markdown(chosen["notes"]),
        _files(),
        rx.cond(
            chosen["is_latest"] & SessionState.can_admin & (SessionState.outdated_by_job > 0),
            rx.el.div(update, style={"margin_top": "14px"}),
        ),
        class_name="ry-note-body",
        tab_index=0,
    )


def release_notes(on_update: rx.event.EventSpec) -> rx.Component:
    """The dialog: versions on the left, notes on the right; `on_update` asks whether to update the outdated runners."""
    close = rx.dialog.close(icon_button("x", "Close"))
    return rx.dialog.root(
        rx.dialog.content(
            rx.el.div(
                rx.dialog.title("Release notes", class_name="grow", size="4", margin="0"),
                close,
                class_name="ry-sh ry-note-head",
            ),
            rx.el.div(
                rx.el.div(rx.foreach(State.releases, _version), class_name="ry-note-list"),
                _chosen(on_update),
                class_name="ry-note-grid",
            ),
            max_width="640px",
            padding="0",
            aria_describedby=None,
        ),
        open=State.is_open,
        on_open_change=State.set_open,
    )


def _file(file: Any) -> rx.Component:
    name = file["name"].to(str)
    return rx.el.div(
        rx.el.a(name, href=file["url"], rel="noopener noreferrer", class_name="ry-link ry-el"),
        rx.el.span(file["sha256"], class_name="ry-el", title="SHA-256"),
        copy_icon(file["sha256"].to(str), "Copy the SHA-256 of " + name),
        class_name="ry-sec1 ry-file-line",
        key=name,
    )


def file_list(files: Any) -> rx.Component:
    """List files: a link to each, and its SHA-256 to compare with."""
    return rx.el.div(rx.foreach(files, _file), class_name="ry-code")
