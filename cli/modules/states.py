"""A state in words: what was brought in, and the resources that it has."""

from collections.abc import Mapping
from typing import Any

from cli.jobs.plan import plan_counts

MASKED = "(sensitive)"


def brought_words(job: Mapping[str, Any]) -> str:
    """How the copy of a state ended: what came, and what its first plan found."""
    state = (job.get("result") or {}).get("brought_state")
    if not state:
        return f"{job['module_path']}: no state was brought in."
    came = (
        f"{job['module_path']}: serial {state['serial']} with {state['resources']} resources, from {state['backend']}."
    )
    if job["status"] != "SUCCEEDED":
        return f"{came}\nIts first plan failed; plan again once the cause is gone."
    found = plan_counts(job.get("plan_summary") or {})
    return (
        f"{came}\nFirst plan: {found}. Nothing was applied.\n"
        "The old state gets out of date with the first apply here: deny writes to it, or archive it."
    )


def resources_of(state: Mapping[str, Any], address: str | None = None) -> list[dict[str, Any]]:
    """The resources of a state of OpenTofu or Terraform with their attributes, all or the one of this address."""
    found = [
        {"address": _address(resource, instance), "attributes": _attributes(instance)}
        for resource in state.get("resources") or []
        for instance in resource.get("instances") or []
    ]
    return [each for each in found if address in (None, each["address"])]


def _address(resource: Mapping[str, Any], instance: Mapping[str, Any]) -> str:
    mode = "data" if resource.get("mode") == "data" else None
    parts = [resource.get("module"), mode, resource.get("type"), resource.get("name")]
    key = instance.get("index_key")
    index = "" if key is None else f"[{key}]" if isinstance(key, int) else f'["{key}"]'
    return ".".join(part for part in parts if part) + index


def _attributes(instance: Mapping[str, Any]) -> dict[str, Any]:
    """Attributes by name; one that is sensitive anywhere inside is masked as a whole."""
    hidden = {path[0].get("value") for path in instance.get("sensitive_attributes") or [] if path}
    return {name: MASKED if name in hidden else value for name, value in (instance.get("attributes") or {}).items()}
