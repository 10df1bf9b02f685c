"""Checks an event's arguments against its handler's hints; Reflex itself only coerces them."""

import inspect
from collections.abc import Callable, Mapping
from functools import cache
from typing import Any, get_type_hints

from pydantic import ConfigDict, PydanticUserError, TypeAdapter, ValidationError
from reflex_base.utils.form import FORM_DATA_ENTRIES_KEY, transform_form_data

MAX_TEXT = 256 * 1024


class BadArguments(Exception):
    """An event carried arguments that its handler does not take."""


@cache
def _adapter(hint: Any) -> TypeAdapter[Any]:
    try:
        return TypeAdapter(hint, config=ConfigDict(strict=True))
    except PydanticUserError:  # models and typed dicts bring their own configuration
        return TypeAdapter(hint)


@cache
def hints_of(fn: Callable[..., Any]) -> dict[str, Any]:
    """Name the hint of each argument a handler takes, without self."""
    hints = get_type_hints(fn)
    names = list(inspect.signature(fn).parameters)[1:]
    return {name: hints[name] for name in names if name in hints}


def _is_too_long(value: Any) -> bool:
    if isinstance(value, str):
        return len(value) > MAX_TEXT
    if isinstance(value, Mapping):
        return any(_is_too_long(item) for item in value.values())
    return isinstance(value, list) and any(_is_too_long(item) for item in value)


def _check_value(name: str, hint: Any, value: Any) -> None:
    if isinstance(value, Mapping) and FORM_DATA_ENTRIES_KEY in value:
        value = transform_form_data(value, hint)
    if _is_too_long(value):
        raise BadArguments(f"{name} is too long")
    try:
        _adapter(hint).validate_python(value, strict=True)
    except ValidationError as error:
        raise BadArguments(f"{name} is not a {hint}") from error


def check_arguments(fn: Callable[..., Any], payload: Mapping[str, Any]) -> None:
    """Refuse a payload that does not fit the handler's signature exactly."""
    hints = hints_of(fn)
    parameters = dict(list(inspect.signature(fn).parameters.items())[1:])
    unknown = payload.keys() - parameters.keys()
    if unknown:
        raise BadArguments(f"{', '.join(sorted(unknown))} is not an argument")
    for name, parameter in parameters.items():
        if name not in payload:
            if parameter.default is inspect.Parameter.empty:
                raise BadArguments(f"{name} is missing")
        elif name not in hints:
            raise BadArguments(f"{name} has no type to be checked against")
        else:
            _check_value(name, hints[name], payload[name])
