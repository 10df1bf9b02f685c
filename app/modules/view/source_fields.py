"""The rules that fields of a module's form alone follow: where its code is, and the engine's version."""

import re
from urllib.parse import urlsplit

from app.ui.form.fields import MAX_DEPTH, Wrong, without_password

MAX_FILES = 64
_VERSION = re.compile(r"\d+\.\d+\.\d+(?:-[0-9A-Za-z.]+)?")
_SHA256 = re.compile(r"[0-9a-fA-F]{64}")


def archive_url(value: str) -> str:
    text = value.strip()
    parts = urlsplit(text)
    if parts.scheme != "https" or not parts.hostname or re.search(r"\s", text):
        raise Wrong("An address that begins with https://.")
    return without_password(text, parts.username or parts.password)


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
