"""A plan in words: how much it changes, and what."""

from collections.abc import Mapping
from typing import Any

SIGNS = {"create": "+", "update": "~", "replace": "±", "delete": "-", "read": "<"}
COUNTED = {"create": "to create", "update": "to change", "replace": "to replace", "delete": "to destroy"}
MOST_SHOWN = 200


def plan_counts(summary: Mapping[str, Any]) -> str:
    """Count a plan's changes, in one line."""
    found = [f"{summary[name]} {words}" for name, words in COUNTED.items() if summary.get(name)]
    return ", ".join(found) or ("outputs change" if summary.get("has_changes") else "no changes")


def change_lines(changes: Mapping[str, Any]) -> list[str]:
    """List a plan's changes, a line for each attribute: old -> new."""
    lines = []
    for resource in changes.get("resources") or []:
        lines.append(f"{SIGNS.get(resource['action'], '?')} {resource['address']}")
        lines += [f"    {each['path']}: {_old(each)} -> {_new(each)}" for each in resource["attributes"]]
        if resource.get("is_truncated"):
            lines.append("    …")
    return lines or ["No plan was saved for it."]


def _old(attribute: Mapping[str, Any]) -> str:
    if attribute["kind"] == "add":
        return "(not set)"
    return str(attribute["before"]) if attribute["before"] is not None else "(sensitive)"


def _new(attribute: Mapping[str, Any]) -> str:
    if attribute["kind"] == "remove":
        return "(not set)"
    if attribute.get("is_unknown"):
        return "(known after apply)"
    return str(attribute["after"]) if attribute["after"] is not None else "(sensitive)"


def plan_lines(summary: Mapping[str, Any]) -> list[str]:
    """List a plan's changes, a line for each resource."""
    resources = summary.get("resources") or []
    lines = [f"  {SIGNS.get(each['action'], '?')} {each['address']}" for each in resources[:MOST_SHOWN]]
    if len(resources) > MOST_SHOWN:
        lines.append(f"  … and {len(resources) - MOST_SHOWN} more")
    return [*lines, f"Plan: {plan_counts(summary)}."]
