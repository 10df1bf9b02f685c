"""The rules that single fields of a module's form follow; each returns the value or the error."""

import json
import re
from typing import Any
from urllib.parse import urlsplit

MAX_TEXT = 64 * 1024
MAX_FILES = 64
MAX_DEPTH = 8
MAX_LABELS = 32

_NAME = re.compile(r"[a-z0-9][a-z0-9_-]{0,62}")
_LABEL = re.compile(r"[a-z0-9](?:[a-z0-9._/-]{0,61}[a-z0-9])?(?:=[A-Za-z0-9._/-]{0,63})?")
_ENV_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,127}")
_VERSION = re.compile(r"\d+\.\d+\.\d+(?:-[0-9A-Za-z.]+)?")
_SHA256 = re.compile(r"[0-9a-fA-F]{64}")
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
    return _without_password(text, parts.password or (parts.username if parts.scheme == "https" else None))


def archive_url(value: str) -> str:
    """Take the address of an archive."""
    text = value.strip()
    parts = urlsplit(text)
    if parts.scheme != "https" or not parts.hostname or re.search(r"\s", text):
        raise Wrong("An address that begins with https://.")
    return _without_password(text, parts.username or parts.password)


def _without_password(text: str, secret: str | None) -> str:
    if secret:
        raise Wrong("Leave user and password out of the address. They belong on the runner's machine.")
    return text


def sha256(value: str) -> str:
    """Take an optional checksum."""
    text = value.strip()
    if text and not _SHA256.fullmatch(text):
        raise Wrong("64 hexadecimal digits, or leave it empty.")
    return text.lower()


def ref(value: str) -> str:
    """Take a branch, tag or commit."""
    text = value.strip()
    if text.startswith("-") or re.search(r"[\s~^:?*\[\\\x00-\x1f]|\.\.|@\{", text) or len(text) > 250:
        raise Wrong("A branch, a tag or a commit, without spaces.")
    return text or "main"


def relative_path(value: str, *, is_optional: bool = False) -> str:
    """Take a path that stays below the working directory."""
    text = value.strip()
    if not text and is_optional:
        return ""
    parts = text.split("/")
    if not text or text.startswith(("/", "~")) or "\\" in text or re.search(r"[\x00-\x1f]", text):
        raise Wrong("A path inside the module, for example modules/vpc.")
    if any(part in ("", ".", "..") for part in parts):
        raise Wrong("The path must not leave the module: no empty part, no dots alone.")
    if len(parts) > MAX_DEPTH:
        raise Wrong(f"At most {MAX_DEPTH} folders deep.")
    return text


def local_path(value: str) -> str:
    """Take a directory on the runner's machine."""
    text = value.strip()
    if not text.startswith(("/", "~/")) or re.search(r"[\x00-\x1f]", text) or ".." in text.split("/"):
        raise Wrong("A full path on the runner's machine, for example /srv/infra/vpc.")
    return text


def engine_version(value: str) -> str:
    """Take an optional engine version."""
    text = value.strip().removeprefix("v")
    if text and not _VERSION.fullmatch(text):
        raise Wrong("A version like 1.10.5, or empty to use the runner's version.")
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
