"""The base of every section: the seeds' PascalCase names outside, snake_case inside; and the kinds of values that several have."""

import json
import os
from collections.abc import Iterable
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any, Self

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict
from pydantic.alias_generators import to_pascal


class Section(BaseModel):
    """One object of the settings file; an unknown key is a mistake, not a wish."""

    model_config = ConfigDict(
        alias_generator=to_pascal,
        populate_by_name=True,
        extra="forbid",
        frozen=True,
        hide_input_in_errors=True,
    )


class Word(StrEnum):
    """One of some words, accepted in any case and without its underscores."""

    @classmethod
    def _missing_(cls, value: object) -> Self | None:
        wanted = str(value).strip().replace("_", "").lower()
        return next((word for word in cls if word.replace("_", "").lower() == wanted), None)


def expand_home(value: object) -> object:
    """Expand a leading `~` to the home directory of the process' user."""
    if isinstance(value, str | os.PathLike):
        return Path(value).expanduser()
    return value


def split_words(value: object) -> object:
    """Read a list as a list, as JSON, as `{"0": …}` or as comma-separated text."""
    if isinstance(value, dict) and all(str(key).isdigit() for key in value):
        return [value[key] for key in sorted(value, key=int)]
    if not isinstance(value, str):
        return value
    text = value.strip()
    if text.startswith("["):
        return json.loads(text)
    return [part.strip() for part in text.split(",") if part.strip()]


def split_paths(value: object) -> object:
    """Read a list of directories; `:` separates them too, as in PATH."""
    if isinstance(value, str) and not value.lstrip().startswith("["):
        value = value.replace(os.pathsep, ",")
    return split_words(value)


def split_binds(value: object) -> object:
    """Read a list of bindings; a part without a colon is another option of the one before, as in `/a:/b:ro,z`."""
    if not isinstance(value, str) or value.lstrip().startswith("["):
        return split_words(value)
    binds: list[str] = []
    for part in value.split(","):
        if ":" in part or not binds:
            binds.append(part.strip())
        else:
            binds[-1] += f",{part.strip()}"
    return [bind for bind in binds if bind]


def split_pairs(value: object) -> object:
    """Read a map as a map, as JSON or as `name=value,…`."""
    if not isinstance(value, str):
        return value
    text = value.strip()
    if text.startswith("{"):
        return json.loads(text)
    pairs = [part.partition("=") for part in text.split(",") if part.strip()]
    if wrong := [name for name, equals, _ in pairs if not equals or not name.strip()]:
        raise ValueError(f"{wrong[0]!r} is not name=value")
    return {name.strip(): content for name, _, content in pairs}


def read_objects(value: object) -> object:
    """Read a list of objects, also as JSON."""
    return json.loads(value) if isinstance(value, str) else value


HomePath = Annotated[Path, BeforeValidator(expand_home)]
PathList = Annotated[list[HomePath], BeforeValidator(split_paths)]
WordList = Annotated[list[str], BeforeValidator(split_words)]
BindList = Annotated[list[str], BeforeValidator(split_binds)]
WordMap = Annotated[dict[str, str], BeforeValidator(split_pairs)]
ObjectList = Annotated[list[dict[str, Any]], BeforeValidator(read_objects)]


# The runner's own, and what would change how every program of a job starts.
NEVER_PREFIXES = ("WORKER_", "RUNYARD_", "SUPABASE_", "LD_", "DYLD_", "PYTHON", "BASH_FUNC_")
NEVER_NAMES = frozenset(("PATH", "BASH_ENV", "ENV", "IFS", "CREDENTIALS_DIRECTORY", "NOTIFY_SOCKET"))


def _check(patterns: list[str]) -> list[str]:
    for pattern in patterns:
        beginning = _beginning(pattern)
        is_too_short = beginning is not None and len(beginning) < 2
        if is_too_short or "*" in pattern[:-1]:
            raise ValueError(f"{pattern!r} is not a name such as PGPASSWORD, nor a beginning such as VSPHERE_*")
        if is_own(beginning or pattern):
            raise ValueError(f"{pattern!r} would hand on what is the runner's own")
    return patterns


PassedNames = Annotated[WordList, AfterValidator(_check)]


def is_own(name: str) -> bool:
    """Whether a variable is never handed on, whatever the settings say."""
    return name in NEVER_NAMES or name.startswith(NEVER_PREFIXES)


def is_passed(name: str, patterns: Iterable[str]) -> bool:
    """Whether the settings hand this variable on."""
    return not is_own(name) and any(_matches(name, pattern) for pattern in patterns)


def _matches(name: str, pattern: str) -> bool:
    beginning = _beginning(pattern)
    return name == pattern if beginning is None else name.startswith(beginning)


def _beginning(pattern: str) -> str | None:
    """`VSPHERE_*` and `VSPHERE_` are beginnings, anything else is a whole name."""
    if pattern.endswith("*"):
        return pattern[:-1]
    return pattern if pattern.endswith("_") else None
