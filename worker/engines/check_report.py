"""The reports of a command that checks a plan: SARIF 2.1, or the cost of the plan. One that cannot be read is an error, never a pass."""

import json
import math
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from worker.engines.policy import failed_set, judge
from worker.logs.texts import Mask

COST_FILE = "cost.json"
SARIF_ENDING = ".sarif"
LARGEST_REPORT = 10 * 1024 * 1024
_COSTS = ("monthly_before", "monthly_after")
_DEFAULT_LEVEL = "warning"
_KINDS = {"error": "deny", "warning": "warn", "note": "warn", "none": ""}


class Unreadable(Exception):
    """A report that is not what it has to be."""


def is_report(name: str) -> bool:
    """Whether a file is one that is read."""
    return name == COST_FILE or name.endswith(SARIF_ENDING)


def read_reports(
    reports: Mapping[str, bytes], folders: Iterable[str], addresses: Iterable[str], mask: Mask
) -> dict[str, Any]:
    """Read the verdict, the messages and the cost; paths are shown without these folders."""
    found: list[tuple[str, str, Any]] = []
    cost: dict[str, Any] = {}
    if not reports:
        return failed_set(f"The command left neither a {SARIF_ENDING} file nor {COST_FILE}.")
    for name, body in sorted(reports.items()):
        try:
            document = _parse(body)
            if name == COST_FILE:
                cost = {"cost": _read_cost(document)}
            else:
                found += _read_sarif(document, tuple(folders))
        except Unreadable as error:
            return failed_set(mask(f"{name} {error}"))
        except (ValueError, KeyError, TypeError, AttributeError, IndexError, RecursionError) as error:
            return failed_set(f"{name} is not a report that can be read: {type(error).__name__}.")
    return {**judge(found, addresses, mask), **cost}


def _parse(body: bytes) -> Any:
    if len(body) > LARGEST_REPORT:
        raise Unreadable(f"is larger than {LARGEST_REPORT // 1024**2} MiB.")
    try:
        # Some tools for Windows begin a file with a mark.
        return json.loads(body.decode("utf-8-sig"))
    except ValueError as error:
        raise Unreadable("is not JSON.") from error


def _read_cost(document: Any) -> dict[str, float]:
    before, after = (_amount(document, key) for key in _COSTS)
    return {"monthly_before": before, "monthly_after": after, "monthly_delta": round(after - before, 6)}


def _amount(document: Any, key: str) -> float:
    """Read a number, or a text that is one: tools that compute with decimals write texts."""
    value = document.get(key) if isinstance(document, dict) else None
    try:
        amount = math.nan if isinstance(value, bool) else float(value)  # type: ignore[arg-type]
    except (TypeError, ValueError, OverflowError):
        amount = math.nan
    if not 0 <= amount < 1e12:
        raise Unreadable(f"has no amount {key}.")
    return amount


def _read_sarif(document: Any, folders: tuple[str, ...]) -> Iterator[tuple[str, str, Any]]:
    if not isinstance(document, dict) or not str(document.get("version")).startswith("2.1."):
        raise Unreadable("is not SARIF 2.1.")
    if not document["runs"]:
        raise Unreadable("has no run of a tool.")
    for run in document["runs"]:
        # Without the list the tool has not come to a result; an empty one means that it found nothing.
        if not isinstance(run.get("results"), list):
            raise Unreadable("has a run without results.")
        if any(each.get("executionSuccessful") is False for each in run.get("invocations") or []):
            raise Unreadable("reports a run that did not succeed.")
        rules = run["tool"]["driver"].get("rules") or []
        for result in run["results"]:
            yield from _result(result, rules, folders)


def _result(result: Mapping[str, Any], rules: list[Any], folders: tuple[str, ...]) -> Iterator[tuple[str, str, Any]]:
    named = result.get("rule") or {}
    name, place = result.get("ruleId") or named.get("id"), result.get("ruleIndex", named.get("index", -1))
    by_place = rules[place] if isinstance(place, int) and place >= 0 else None
    rule: Mapping[str, Any] = by_place or next((each for each in rules if name and each.get("id") == name), {})
    level = result.get("level") or (rule.get("defaultConfiguration") or {}).get("level") or _DEFAULT_LEVEL
    kind = _KINDS[level]
    if kind and result.get("kind", "fail") in ("fail", "open", "review") and not _is_suppressed(result):
        help_page = str(rule.get("helpUri") or "")
        hint = f"See {help_page}" if help_page.startswith("https://") else ""
        item = {"msg": _text(result.get("message") or {}, rule), "resource": _place(result, folders), "hint": hint}
        yield kind, str(name or rule.get("id") or ""), item


def _is_suppressed(result: Mapping[str, Any]) -> bool:
    """Whether somebody has accepted it outside of the code: a branch that is planned has no say in its checks."""
    return any(
        each["kind"] == "external" and each.get("status", "accepted") == "accepted"
        for each in result.get("suppressions") or []
    )


def _text(message: Mapping[str, Any], rule: Mapping[str, Any]) -> str:
    if text := message.get("text") or message.get("markdown"):
        return str(text)
    by_id = (rule.get("messageStrings") or {}).get(message.get("id")) or rule.get("shortDescription") or {}
    text = str(by_id.get("text") or rule.get("id") or "It names no reason.")
    for place, argument in enumerate(message.get("arguments") or []):
        text = text.replace(f"{{{place}}}", str(argument))
    return text


def _place(result: Mapping[str, Any], folders: tuple[str, ...]) -> str:
    """Return the resource that a result names, else its file and line; nothing leaves the message to name one."""
    for location in result.get("locations") or []:
        for logical in location.get("logicalLocations") or []:
            if name := logical.get("fullyQualifiedName") or logical.get("name"):
                return str(name)
        physical = location.get("physicalLocation") or {}
        if file := str((physical.get("artifactLocation") or {}).get("uri") or "").removeprefix("file://"):
            inner = next((file[len(each) :] for each in folders if file.startswith(each)), file).lstrip("/")
            line = (physical.get("region") or {}).get("startLine")
            return f"{inner}:{line}" if line else inner
    return ""
