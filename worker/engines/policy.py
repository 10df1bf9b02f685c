"""Policy rules as OPA evaluates them, named as conftest names them, and the reports of commands that check a plan."""

import json
import math
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from worker.logs.texts import Mask

QUERY = "data"
EVALUATION_SECONDS = 30.0
MOST_MESSAGES = 100
LONGEST_TEXT = 1_000
# Rules depend on their input alone: nothing of the network, of the machine or of the moment. The time is in the input.
_REFUSED = frozenset(
    {"http.send", "net.lookup_ip_addr", "opa.runtime", "time.now_ns", "rand.intn", "uuid.rfc4122", "trace"}
)
_RULE = re.compile(r"(deny|violation|warn)(_\w+)?")
_EXCEPTION = re.compile(r"exception(_\w+)?")
_HEAD = re.compile(r"^\s*(?:default\s+)?(?:deny|violation|warn)(?:_\w+)?\b(?!\()", re.MULTILINE)


def pure_capabilities(current: bytes) -> bytes:
    """Leave out of OPA's own capabilities what reaches beyond the input."""
    found = json.loads(current)
    kept = [each for each in found["builtins"] if each["name"] not in _REFUSED]
    return json.dumps({**found, "builtins": kept, "allow_net": []}).encode()


def policy_input(plan: bytes, run: Mapping[str, Any], files: Mapping[str, str]) -> bytes:
    """Join a plan's JSON and the facts about its run.

    Rules that name `input.plan` find it there; for others the plan's own keys are at the top, where conftest has them.
    It is not there twice: reading it is most of what a large plan costs.
    """
    plan, facts = plan.strip(), json.dumps(run).encode()
    if any("input.plan" in text for text in files.values()):
        return b"".join((b'{"plan":', plan, b',"run":', facts, b"}"))
    # The last of two keys counts, so a plan cannot say anything about its run.
    return b"".join((plan[:-1], b',"run":', facts, b"}"))


def read_verdict(answer: bytes, files: Mapping[str, str], addresses: Iterable[str], mask: Mask) -> dict[str, Any]:
    """Read OPA's answer about one set: its verdict and messages."""
    try:
        document = json.loads(answer)
        if errors := document.get("errors"):
            return failed_set(mask(_error_words(errors[0])))
        tree = document["result"][0]["expressions"][0]["value"]
    except (ValueError, KeyError, IndexError, AttributeError) as error:
        return failed_set(f"OPA's answer cannot be read: {type(error).__name__}.")
    rules = list(_rules(tree))
    if not rules and not any(_HEAD.search(text) for name, text in files.items() if name.endswith(".rego")):
        return failed_set("The set has no rule named deny, violation or warn.", "Look for a misspelt name.")
    kinds = {rule: "warn" if rule.rpartition(".")[2].startswith("warn") else "deny" for rule, _ in rules}
    return judge(((kinds[rule], rule, item) for rule, items in rules for item in items), addresses, mask)


def judge(found: Iterable[tuple[str, str, Any]], addresses: Iterable[str], mask: Mask) -> dict[str, Any]:
    """Return the verdict and the messages of what a set found: the kind, the rule and the item of each."""
    known = sorted(addresses, key=len, reverse=True)
    rows = sorted(found, key=lambda each: each[0])
    kinds = {kind for kind, *_ in rows}
    verdict = "failed" if "deny" in kinds else "warned" if kinds else "passed"
    return {"verdict": verdict, "messages": [_message(*each, known, mask) for each in rows[:MOST_MESSAGES]]}


def failed_set(text: str, hint: str = "") -> dict[str, Any]:
    """Return the verdict of a set that could not be evaluated: an error, which never counts as passed."""
    message = {"rule": "", "kind": "deny", "text": text[:LONGEST_TEXT], "resource": "", "hint": hint}
    return {"verdict": "error", "messages": [message]}


def _error_words(error: Mapping[str, Any]) -> str:
    place = error.get("location") or {}
    name = "/".join(str(place.get("file") or "").split("/")[-2:])
    where = f" ({name}, line {place.get('row')})" if name else ""
    return f"The set cannot be evaluated: {error.get('message')}{where}"


def _rules(tree: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[str, list[Any]]]:
    """Yield the rules of a package and of those below it, each with what it found and no exception covers."""
    if not isinstance(tree, dict):
        return
    spared = {str(name) for key, value in tree.items() if _EXCEPTION.fullmatch(key) for name in _spared(value)}
    for name, value in tree.items():
        if _RULE.fullmatch(name):
            found = [] if name.partition("_")[2] in spared else _items(value, name)
            yield ".".join((*(path if path != ("main",) else ()), name)), found
        elif not _EXCEPTION.fullmatch(name):
            yield from _rules(value, (*path, name))


def _spared(value: Any) -> Iterator[Any]:
    for each in value if isinstance(value, list) else ():
        yield from each if isinstance(each, list) else (each,)


def _items(value: Any, name: str) -> list[Any]:
    if isinstance(value, dict) and "msg" not in value:
        return list(value)
    if isinstance(value, list):
        return value
    return [name if value is True else value] if value else []


def _message(kind: str, rule: str, item: Any, addresses: list[str], mask: Mask) -> dict[str, Any]:
    more = item if isinstance(item, dict) else {"msg": item}
    details = more.get("details")
    more = {**(details if isinstance(details, dict) else {}), **more}
    text = more.get("msg")
    words = text if isinstance(text, str) else json.dumps(item)
    named = str(more.get("resource") or more.get("address") or "")
    return {
        "rule": rule[:200],
        "kind": kind,
        "text": mask(words)[:LONGEST_TEXT],
        "resource": mask(named or next((each for each in addresses if each in words), ""))[:500],
        "hint": mask(str(more.get("hint") or more.get("remediation") or ""))[:LONGEST_TEXT],
    }


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
