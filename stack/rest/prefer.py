"""The `Prefer` header."""

from dataclasses import dataclass
from functools import lru_cache

from stack.rest.errors import RestError, Unsupported

KNOWN = {
    "return": ("representation", "minimal", "headers-only"),
    "resolution": ("merge-duplicates", "ignore-duplicates"),
    "count": ("exact", "planned", "estimated"),
    "missing": ("default", "null"),
    "tx": ("commit", "rollback"),
    "handling": ("strict", "lenient"),
    "params": ("single-object",),
}


@dataclass(frozen=True, slots=True)
class Prefer:
    """The client's preferences; None where it stated none."""

    returning: str | None = None
    resolution: str | None = None
    is_counted: bool = False
    missing: str | None = None
    tx: str | None = None
    is_strict: bool = False
    most_affected: int | None = None
    applied: str = ""


@lru_cache(maxsize=512)
def parse_prefer(header: str) -> Prefer:
    """Read the header; the last of two contradicting preferences wins."""
    found: dict[str, str] = {}
    unknown: list[str] = []
    for part in header.split(","):
        name, _, value = part.strip().partition("=")
        is_known = value in KNOWN.get(name, ()) or (name == "max-affected" and value.isdecimal())
        if is_known:
            found[name] = value
        elif part.strip():
            unknown.append(part.strip())
    _check(found, unknown)
    is_strict = found.get("handling") == "strict"
    return Prefer(
        returning=found.get("return"),
        resolution=found.get("resolution"),
        is_counted="count" in found,
        missing=found.get("missing"),
        tx=found.get("tx"),
        is_strict=is_strict,
        most_affected=int(found["max-affected"]) if is_strict and "max-affected" in found else None,
        applied=", ".join(f"{name}={value}" for name, value in found.items()),
    )


def _check(found: dict[str, str], unknown: list[str]) -> None:
    if found.get("count") in ("planned", "estimated"):
        raise Unsupported(f"`Prefer: count={found['count']}`; use count=exact")
    if "params" in found:
        raise Unsupported("`Prefer: params=single-object`")
    if any(name.startswith("timezone=") for name in unknown):
        raise Unsupported("`Prefer: timezone`")
    if found.get("handling") == "strict" and unknown:
        details = f"Invalid preferences: {', '.join(unknown)}"
        raise RestError(400, "PGRST122", "Invalid preferences given with handling=strict", details)
