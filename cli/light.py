"""Plain arguments without pydantic: typer builds a schema for each one, which costs more than the rest of the start.

This reaches into typer. Where its insides are different, nothing is changed and the program starts a little later.
"""

from pathlib import Path
from typing import Any, get_args, get_origin

import typer
from typer import core

TRUE = frozenset({"1", "true", "t", "yes", "y", "on"})
FALSE = frozenset({"0", "false", "f", "no", "n", "off"})
PLAIN = (str, bool, int, Path)


class PlainValue:
    """Turns texts into one of the plain types, within a range where there is one."""

    def __init__(self, kind: type, is_list: bool, info: Any) -> None:
        self.kind = kind
        self.is_list = is_list
        self.info = info

    def coerce(self, value: Any, param: Any, ctx: Any) -> Any:
        """One value or several; nothing stays nothing."""
        if value is None:
            return () if self.is_list else None
        try:
            if self.is_list:
                return [self._one(each) for each in value]
            return self._one(value)
        except ValueError as error:
            raise typer.BadParameter(str(error), ctx=ctx, param=param) from error

    def _one(self, value: Any) -> Any:
        if self.kind is bool:
            return value if isinstance(value, bool) else _truth(str(value))
        if self.kind is int:
            return self._within(_number(value))
        return self.kind(value)

    def _within(self, value: int) -> int:
        lowest, highest = self.info.min, self.info.max
        if (lowest is not None and value < lowest) or (highest is not None and value > highest):
            raise ValueError(f"{value} is not between {lowest} and {highest}")
        return value


def start_light() -> None:
    """Let typer handle plain arguments without pydantic, from now on."""
    whole = getattr(core, "build_runtime_param", None)
    if whole is None:
        return

    def build(descriptor: Any) -> Any:
        kind, is_list = _plain(descriptor.annotation)
        if kind is None or descriptor.parameter_info.parser is not None:
            return whole(descriptor)
        return PlainValue(kind, is_list, descriptor.parameter_info)

    setattr(core, "build_runtime_param", build)  # noqa: B010 - typer does not offer it


def _plain(annotation: Any) -> tuple[type | None, bool]:
    is_list = get_origin(annotation) is list
    kind = get_args(annotation)[0] if is_list else annotation
    return (kind if kind in PLAIN else None), is_list


def _truth(text: str) -> bool:
    if text.lower() in TRUE | FALSE:
        return text.lower() in TRUE
    raise ValueError(f"{text!r} is neither yes nor no")


def _number(value: Any) -> int:
    try:
        return int(value)
    except ValueError as error:
        raise ValueError(f"{value!r} is not a whole number") from error
