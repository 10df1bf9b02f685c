"""The rail of a module's and a group's page."""

from collections.abc import Sequence

import reflex as rx


def beside_rail(
    first: Sequence[rx.Component], rail: Sequence[rx.Component], rest: Sequence[rx.Component] = ()
) -> rx.Component:
    """Place the rail beside the first components and the rest; where a rail has no room, it is between the two."""
    return rx.el.div(
        rx.el.div(*first, class_name="ry-stack"),
        rx.el.div(*rail, class_name="ry-rail"),
        rx.el.div(*rest, class_name="ry-stack") if rest else rx.fragment(),
        class_name="ry-railed",
    )
