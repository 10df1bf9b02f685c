"""Elements of our own, defined in assets/runyard.js: they tick without the server."""

import reflex as rx


class AgoElement(rx.Component):
    """`<ry-ago at=…>`: 4 s ago, or a running duration; the exact time is its tooltip."""

    # Reflex makes identifiers of tags, which a hyphen would break: hence the constant.
    tag = "RyAgo"
    at: rx.Var[str]
    until: rx.Var[str]
    mode: rx.Var[str]

    def add_custom_code(self) -> list[str]:
        """Name the element."""
        return ['const RyAgo = "ry-ago"']


class ClockElement(rx.Component):
    """`<ry-clock now=…>`: tells the page the server's time, so that a wrong clock does no harm."""

    tag = "RyClock"
    now: rx.Var[str]

    def add_custom_code(self) -> list[str]:
        """Name the element."""
        return ['const RyClock = "ry-clock"']


def ago(at: rx.Var[str] | str, **props: object) -> rx.Component:
    """Show how long ago, ticking: '4 s ago'; '–' when never."""
    return AgoElement.create(at=at, mode="ago", **props)


def since(at: rx.Var[str] | str, until: rx.Var[str] | str = "", **props: object) -> rx.Component:
    """Show a duration that runs until `until` is known: '3 min 41 s'."""
    return AgoElement.create(at=at, until=until, mode="for", **props)


def date(at: rx.Var[str] | str, **props: object) -> rx.Component:
    """Show a short date: '12 Mar', with the year when it is another one."""
    return AgoElement.create(at=at, mode="date", **props)


def clock_time(at: rx.Var[str] | str, **props: object) -> rx.Component:
    """Show the time of day, or 'Yesterday', or the date."""
    return AgoElement.create(at=at, mode="time", **props)
