"""Icons: lucide by name, sized by the style sheet."""

import reflex as rx


def icon(name: str, size: str = "s", **props: object) -> rx.Component:
    """Draw an icon that decorates the word beside it: sizes are '', 's', 'xs' and 'l'."""
    classes = f"ry-i {size} {props.pop('class_name', '')}".strip()
    return rx.icon(name, class_name=classes, aria_hidden="true", **props)
