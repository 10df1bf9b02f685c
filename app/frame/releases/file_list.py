"""The files of a release with their checksums."""

from typing import Any

import reflex as rx

from app.ui.copy import copy_icon


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
