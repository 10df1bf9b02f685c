"""Elements of our own, defined in assets/runyard.js: they tick without the server."""

import re
from typing import Any

import reflex as rx


class OwnElement(rx.Component):
    """An element by the name of its tag: RyAgo is `<ry-ago>`. Reflex makes identifiers of tags, which a hyphen would break."""

    def add_custom_code(self) -> list[str]:
        tag = str(self.tag)
        return [f'const {tag} = "{re.sub("(?<=[a-z])(?=[A-Z])", "-", tag).lower()}"']


class AgoElement(OwnElement):
    """`<ry-ago at=…>`: 4 s ago, or a running duration; the exact time is its tooltip."""

    tag = "RyAgo"
    at: rx.Var[str]
    until: rx.Var[str]
    mode: rx.Var[str]


class LoadElement(OwnElement):
    """`<ry-load used=… of=…>`: one bar per slot up to 8, a meter above; the number beside it."""

    tag = "RyLoad"
    used: rx.Var[int]
    of: rx.Var[int]
    state: rx.Var[str]


class SecretElement(OwnElement):
    """`<ry-secret owner=… text=…>`: text into which the browser puts the token that it received once."""

    tag = "RySecret"
    owner: rx.Var[str]
    text: rx.Var[str]


class LinkNoteElement(OwnElement):
    """`<ry-link-note>`: what became of a link in a mail that led here."""

    tag = "RyLinkNote"


# A link to a file is the browser's own: the router would look for a page of that name.
DOWNLOAD: dict[str, Any] = {"download": "", "reloadDocument": True}


def secret(owner: rx.Var[str], text: rx.Var[str] | str, **props: object) -> rx.Component:
    """Show a text with %TOKEN% replaced; afterwards, and everywhere else, it says '(shown once)'."""
    return SecretElement.create(owner=owner, text=text, **props)


def load(used: rx.Var[int], of: rx.Var[int], state: rx.Var[str] | str = "") -> rx.Component:
    """Show slots in use; '–' when there is none to use."""
    return LoadElement.create(used=used, of=of, state=state)


def ago(at: rx.Var[str] | str, **props: object) -> rx.Component:
    """Show how long ago, ticking: '4 s ago'; '–' when never."""
    return AgoElement.create(at=at, mode="ago", **props)


def since(at: rx.Var[str] | str, until: rx.Var[str] | str = "", **props: object) -> rx.Component:
    """Show a duration that runs until `until` is known: '3 min 41 s'; in tenths once it is over, if it took moments."""
    return AgoElement.create(at=at, until=until, mode="for", **props)


def timer(at: rx.Var[str] | str, **props: object) -> rx.Component:
    """Show minutes and seconds since then: '0:42'."""
    return AgoElement.create(at=at, mode="timer", **props)


def date(at: rx.Var[str] | str, **props: object) -> rx.Component:
    """Show a short date: '12 Mar', with the year when it is another one."""
    return AgoElement.create(at=at, mode="date", **props)


def clock_time(at: rx.Var[str] | str, **props: object) -> rx.Component:
    """Show the time of day, or 'Yesterday', or the date."""
    return AgoElement.create(at=at, mode="time", **props)


def hour_of_day(at: rx.Var[str] | str, **props: object) -> rx.Component:
    """Show the time of day, whichever day it was: for an axis."""
    return AgoElement.create(at=at, mode="hour", **props)


def clock_seconds(at: rx.Var[str] | str, **props: object) -> rx.Component:
    """Show the time of day to the second, on later days the date and the minute."""
    return AgoElement.create(at=at, mode="clock", **props)


def zoned_time(at: rx.Var[str] | str) -> rx.Component:
    """Show the time of day or date and minute with the time zone: in a sentence, beside times that are not the reader's."""
    return AgoElement.create(at=at, mode="zoned")


def doc_link(label: str, path: str) -> rx.Component:
    """Link to a page of the documentation, which the product serves itself."""
    return rx.el.a(label, href=f"/docs/{path}/", target="_blank", class_name="ry-link")
