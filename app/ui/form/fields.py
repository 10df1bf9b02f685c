"""The rules that fields of several forms follow; each returns the value or the error."""

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeVar
from urllib.parse import urlsplit

from wire.spans import read_time_limits

Form = Mapping[str, str]
T = TypeVar("T")

MAX_TEXT = 64 * 1024
MAX_DEPTH = 8
MAX_LABELS = 32

_NAME = re.compile(r"[a-z0-9][a-z0-9_-]{0,62}")
_LABEL = re.compile(r"[a-z0-9](?:[a-z0-9._/-]{0,61}[a-z0-9])?(?:=[A-Za-z0-9._/-]{0,63})?")
_ENV_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,127}")
_SCP_LIKE = re.compile(r"[A-Za-z0-9_.-]+@[A-Za-z0-9.-]+:[^\s]+")


class Wrong(ValueError):
    """A field's value cannot be taken; the text says why and what would do."""


def name(value: str) -> str:
    """Take a module's or group part's name."""
    text = value.strip()
    if not text:
        raise Wrong("Enter a name.")
    if not _NAME.fullmatch(text):
        raise Wrong(f"Lower-case letters, digits and dashes, up to 63. Try {suggested(text)}.")
    return text


def suggested(text: str) -> str:
    """Bend a text into a name that would be taken."""
    bent = re.sub(r"[^a-z0-9_-]+", "-", text.lower()).strip("-_")[:63].strip("-_")
    return bent or "my-module"


def time_limits(value: str) -> dict[str, int]:
    """Take time limits of jobs, for example plan=1h."""
    try:
        return read_time_limits(value)
    except ValueError as error:
        raise Wrong(str(error)) from error


def group_path(value: str) -> str:
    """Take the path of a group, for example platform/network."""
    parts = value.strip().strip("/").split("/")
    if parts == [""]:
        raise Wrong("A module lives in a group. Name one, for example platform/network.")
    if len(parts) > MAX_DEPTH:
        raise Wrong(f"A path has at most {MAX_DEPTH} parts.")
    return "/".join(name(part) for part in parts)


def git_url(value: str) -> str:
    """Take an address that git can clone from, without a password in it."""
    text = value.strip()
    if _SCP_LIKE.fullmatch(text):
        return text
    parts = urlsplit(text)
    if parts.scheme not in ("https", "ssh") or not parts.hostname or re.search(r"\s", text):
        raise Wrong("An address like https://git.example.com/infra/platform or git@git.example.com:infra/platform.")
    return without_password(text, parts.password or (parts.username if parts.scheme == "https" else None))


def without_password(text: str, secret: str | None) -> str:
    """Refuse an address with a password in it."""
    if secret:
        raise Wrong("Leave user and password out of the address. They belong on the runner's machine.")
    return text


def json_object(value: str) -> dict[str, Any]:
    """Take a JSON object; empty text is an empty object."""
    text = value.strip()
    if not text:
        return {}
    if len(text) > MAX_TEXT:
        raise Wrong("More than 64 KB. Put large values into an extra file.")
    try:
        read = json.loads(text, parse_constant=_refuse_constant)
    except ValueError as error:
        raise Wrong(_json_words(error)) from error
    if not isinstance(read, dict):
        raise Wrong('An object of names and values, for example {"region": "eu-west-1"}.')
    return read


def _refuse_constant(text: str) -> Any:
    raise Wrong(f"{text} is not JSON.")


def _json_words(error: ValueError) -> str:
    if isinstance(error, json.JSONDecodeError):
        return f"Not JSON at line {error.lineno}, column {error.colno}: {error.msg.lower()}."
    return str(error)


def env_name(value: str) -> str:
    """Take the name of an environment variable; the database knows which ones no job may set."""
    text = value.strip()
    if not _ENV_NAME.fullmatch(text):
        raise Wrong("Letters, digits and underscores, for example TF_LOG.")
    return text


def labels(value: str) -> list[str]:
    """Take labels, separated by commas or spaces."""
    found = [part for part in re.split(r"[,\s]+", value) if part]
    for label in found:
        if not _LABEL.fullmatch(label):
            raise Wrong(f"{label} is not a label. They look like gpu=true, the name in lower case.")
    if len(found) > MAX_LABELS:
        raise Wrong(f"At most {MAX_LABELS} labels.")
    return list(dict.fromkeys(found))


def whole_number(value: str, lowest: int, highest: int) -> int:
    """Take a whole number between two bounds."""
    text = value.strip() or str(lowest)
    if not re.fullmatch(r"\d{1,9}", text) or not lowest <= int(text) <= highest:
        raise Wrong(f"A whole number from {lowest} to {highest}.")
    return int(text)


def text_of(value: str, limit: int = MAX_TEXT) -> str:
    """Take free text up to a size."""
    if len(value) > limit:
        raise Wrong(f"More than {limit:,} characters.")
    if "\x00" in value:
        raise Wrong("It contains a character that is not text.")
    return value


@dataclass
class Checked:
    """The spec, and what is wrong by field; the spec is only good when nothing is."""

    spec: dict[str, Any] = field(default_factory=dict)
    errors: dict[str, str] = field(default_factory=dict)

    def take(self, key: str, form: Form, rule: Callable[[str], T], default: Any) -> T:
        """Apply a rule to a field and keep its complaint, if any."""
        try:
            return rule(form.get(key, ""))
        except Wrong as wrong:
            self.errors[key] = str(wrong)
            return default  # type: ignore[no-any-return]


def texts(form: object) -> dict[str, str]:
    """Keep the text fields of whatever a browser sent; anything else is treated as not filled in."""
    if not isinstance(form, Mapping):
        return {}
    return {key: value for key, value in form.items() if isinstance(key, str) and isinstance(value, str)}
