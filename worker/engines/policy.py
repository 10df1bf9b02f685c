"""Policy rules as OPA evaluates them, named as conftest names them."""

import json
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
