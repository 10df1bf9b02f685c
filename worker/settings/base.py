"""What every section shares: the seeds' PascalCase names outside, snake_case inside."""

import json
import os
from pathlib import Path
from typing import Annotated

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


HomePath = Annotated[Path, BeforeValidator(expand_home)]
PathList = Annotated[list[HomePath], BeforeValidator(split_paths)]
WordList = Annotated[list[str], BeforeValidator(split_words)]
