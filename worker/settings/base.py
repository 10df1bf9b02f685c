"""The base of every section: the seeds' PascalCase names outside, snake_case inside."""

import json
import os
from pathlib import Path
from typing import Annotated, Any

from pydantic import BaseModel, BeforeValidator, ConfigDict
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
