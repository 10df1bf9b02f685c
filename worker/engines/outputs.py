"""The outputs of a module as its job's result shows them, without sensitive values."""

from collections.abc import Mapping
from typing import Any

from worker.logs.texts import Mask, masked

LARGEST_VALUE = 16 * 1024


def shown_outputs(outputs: Mapping[str, Any], mask: Mask) -> dict[str, Any]:
    """Mask the JSON of `output -json` for the job's result; `mask` hides what else is secret."""
    return {name: _shown(entry, mask) for name, entry in sorted(outputs.items()) if isinstance(entry, Mapping)}


def secret_outputs(outputs: Mapping[str, Any]) -> list[str]:
    """List the sensitive texts, so that they can be masked in hooks that follow."""
    entries = (entry for entry in outputs.values() if isinstance(entry, Mapping))
    return [entry["value"] for entry in entries if entry.get("sensitive") and isinstance(entry.get("value"), str)]


def _shown(entry: Mapping[str, Any], mask: Mask) -> dict[str, Any]:
    is_sensitive = bool(entry.get("sensitive"))
    value = entry.get("value")
    is_too_long = len(str(value)) > LARGEST_VALUE
    return {
        "sensitive": is_sensitive,
        "type": entry.get("type"),
        "value": None if is_sensitive or is_too_long else masked(value, mask),
        **({"is_truncated": True} if is_too_long and not is_sensitive else {}),
    }
