"""A state in words: what was brought in, and the resources that it has."""

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from cli.jobs.plan import plan_counts

MASKED = "(sensitive)"
Words = Callable[[Mapping[str, Any]], str]


def change_words(change: Mapping[str, Any]) -> str:
    """Describe a change of a state."""
    named = ", ".join(change["addresses"])
    match change["action"]:
        case "move":
            return f"move {named} to {change['to']}" + (" of the other module" if "module" in change else "")
        case "import":
            return f"import {change['id']} as {named}"
        case _:
            return f"remove {named}, which stays in the world"


def changed_words(job: Mapping[str, Any]) -> str:
    """Describe the result of a change of a state."""
    change = (job.get("result") or {}).get("state_change")
    if not change:
        return f"{job['module_path']}: the state is as it was."
    return f"{job['module_path']}: done: {change_words(change)}. Plan the module to see what its code would change now."


def brought_words(job: Mapping[str, Any]) -> str:
    """Describe the result of a state's copy: the state that arrived, and the findings of its first plan."""
    state = (job.get("result") or {}).get("brought_state")
    if not state:
        return f"{job['module_path']}: no state was brought in."
    came = (
        f"{job['module_path']}: serial {state['serial']} with {state['resources']} resources, from {state['backend']}."
    )
    if job["status"] != "SUCCEEDED":
        return f"{came}\nIts first plan failed; plan again once the cause is fixed."
    found = plan_counts(job.get("plan_summary") or {})
    return (
        f"{came}\nFirst plan: {found}. Nothing was applied.\n"
        "The old state gets out of date with the first apply here: deny writes to it, or archive it."
    )


def resources_of(state: Mapping[str, Any], address: str | None = None) -> list[dict[str, Any]]:
    """The resources of a state of OpenTofu or Terraform with their attributes, all or the one of this address."""
    pairs = [(each, instance) for each in state.get("resources") or [] for instance in each.get("instances") or []]
    secrets = {text for _, instance in pairs for name in _hidden(instance) for text in _texts(_given(instance)[name])}
    secrets |= {
        text
        for each in (state.get("outputs") or {}).values()
        if each.get("sensitive")
        for text in _texts(each["value"])
    }
    found = [{"address": _address(*pair), "attributes": _masked(pair[1], secrets)} for pair in pairs]
    return [each for each in found if address in (None, each["address"])]


def _address(resource: Mapping[str, Any], instance: Mapping[str, Any]) -> str:
    mode = "data" if resource.get("mode") == "data" else None
    parts = [resource.get("module"), mode, resource.get("type"), resource.get("name")]
    key = instance.get("index_key")
    index = "" if key is None else f"[{key}]" if isinstance(key, int) else f'["{key}"]'
    return ".".join(part for part in parts if part) + index


def _given(instance: Mapping[str, Any]) -> dict[str, Any]:
    return instance.get("attributes") or {}


def _hidden(instance: Mapping[str, Any]) -> set[str]:
    """The attributes that are sensitive, as a whole or somewhere inside."""
    named = {path[0].get("value") for path in instance.get("sensitive_attributes") or [] if path}
    return named & set(_given(instance))


def _texts(value: Any) -> Iterator[str]:
    """Every text inside of a value; one of any type is kept with its type beside it, which is not secret."""
    if isinstance(value, str) and value:
        yield value
    elif isinstance(value, dict):
        for inner in [value["value"]] if value.keys() == {"value", "type"} else value.values():
            yield from _texts(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from _texts(inner)


def _masked(instance: Mapping[str, Any], secrets: set[str]) -> dict[str, Any]:
    """Attributes by name; providers copy a sensitive value into others that the state does not mark."""
    hidden = _hidden(instance)
    return {
        name: MASKED if name in hidden or not secrets.isdisjoint(_texts(value)) else value
        for name, value in _given(instance).items()
    }


def evidence(found: Mapping[str, Any]) -> str:
    """Describe a state's lock: the verdict first, then each line that led to it."""
    if not found["is_locked"]:
        return "Not locked."
    lines = [f"  {each['weighs']}: {each['text']}" for each in found["evidence"]]
    return "\n".join([f"Breaking the lock {found['lock_id']} is {found['verdict']}.", *lines])
