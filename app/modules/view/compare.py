"""The differences between two versions of a state, by resource and output, without their values."""

import json
from collections.abc import Iterator, Mapping
from typing import Any, TypedDict

MAX_DIFFERENCES = 500


class Difference(TypedDict):
    """One resource that is in only one version, or not the same in both."""

    symbol: str
    style: str
    address: str
    word: str


def compare(older: str, newer: str) -> list[Difference]:
    before, after = dict(_resources(older)), dict(_resources(newer))
    found: list[Difference] = []
    for address in sorted(before.keys() | after.keys()):
        if address not in before:
            found.append(_difference("+", "p-c", address, "new"))
        elif address not in after:
            found.append(_difference("-", "p-d", address, "gone"))
        elif before[address] != after[address]:
            found.append(_difference("~", "p-u", address, "changed"))
    return found[:MAX_DIFFERENCES]


def _difference(symbol: str, style: str, address: str, word: str) -> Difference:
    return {"symbol": symbol, "style": style, "address": address, "word": word}


def _resources(text: str) -> Iterator[tuple[str, str]]:
    try:
        state = json.loads(text)
    except ValueError:
        return
    if not isinstance(state, Mapping):
        return
    yield from _terraform(state)
    yield from _pulumi(state)


def _terraform(state: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    outputs = state.get("outputs")
    for name, output in (outputs if isinstance(outputs, Mapping) else {}).items():
        yield f"output.{name}", json.dumps(output, sort_keys=True)
    for resource in state.get("resources") or []:
        if not isinstance(resource, Mapping) or not resource.get("type"):
            continue
        prefix = f"{resource['module']}." if resource.get("module") else ""
        data = "data." if resource.get("mode") == "data" else ""
        for instance in resource.get("instances") or []:
            index = instance.get("index_key")
            suffix = "" if index is None else f"[{json.dumps(index)}]"
            address = f"{prefix}{data}{resource['type']}.{resource.get('name')}{suffix}"
            yield address, json.dumps(instance.get("attributes"), sort_keys=True)


def _pulumi(state: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    checkpoint = state.get("checkpoint")
    latest = checkpoint.get("latest") if isinstance(checkpoint, Mapping) else None
    for resource in (latest or {}).get("resources") or []:
        if isinstance(resource, Mapping) and resource.get("urn"):
            yield str(resource["urn"]), json.dumps(resource.get("outputs"), sort_keys=True)
