"""The relative paths that a job may name, and names that become folders."""

import hashlib
import re

from worker.errors import JobFailed

DEEPEST_PATH = 32
LONGEST_PATH = 1024
LONGEST_NAME = 255


def split_path(path: str) -> tuple[str, ...]:
    """Split a job's relative path into names, refusing everything that could lead elsewhere."""
    reason = _why_refused(path)
    if reason:
        raise JobFailed(
            f"The path {path[:200]!r} is refused: {reason}.",
            code="unsafe_path",
            hint="Use a relative path below the module's own directory.",
        )
    return tuple(path.split("/"))


def slug(name: str) -> str:
    """Spell any name as that of a folder; names that look alike after cleaning do not share one."""
    plain = re.sub(r"[^A-Za-z0-9._-]+", "-", name)[:40].strip(".") or "instance"
    return f"{plain}-{hashlib.sha256(name.encode()).hexdigest()[:8]}"


def _why_refused(path: str) -> str:
    names = path.split("/")
    checks = (
        (not path, "it is empty"),
        (any(ord(char) < 32 or ord(char) == 127 for char in path), "it has a control character"),
        ("\\" in path, "it has a backslash"),
        (path.startswith(("/", "~")), "it is absolute"),
        (any(name in {"", ".", ".."} for name in names), "it has an empty, '.' or '..' part"),
        (len(names) > DEEPEST_PATH, f"it is deeper than {DEEPEST_PATH}"),
        (len(path.encode(errors="replace")) > LONGEST_PATH, "it is too long"),
        (any(len(name.encode(errors="replace")) > LONGEST_NAME for name in names), "a name is too long"),
        (any("\ud800" <= char <= "\udfff" for char in path), "it is not valid text"),
    )
    return next((reason for is_bad, reason in checks if is_bad), "")
