"""A plan as the page lists it: counts, and one line per resource."""

from collections.abc import Mapping
from dataclasses import dataclass, replace

from app.ui.view import Row, count, read

ACTIONS = {
    "create": ("+", "p-c", "create"),
    "update": ("~", "p-u", "update"),
    "replace": ("±", "p-r", "replace"),
    "delete": ("-", "p-d", "delete"),
    "read": ("?", "mut", "read"),
}
_UNKNOWN = ("·", "mut", "leave")
MAX_RESOURCES = 2_000


@dataclass(frozen=True)
class Attribute:
    """One attribute that a plan changes: old and new as texts, or words in their place."""

    path: str
    symbol: str
    style: str
    old: str = ""
    new: str = ""
    old_note: str = ""
    new_note: str = ""
    is_forcing: bool = False


@dataclass(frozen=True)
class Resource:
    """One resource of a plan; `state` is DONE, RUNNING, STOPPED, FAILED, PENDING or empty when nothing is applied."""

    address: str
    symbol: str
    style: str
    word: str
    state: str = ""
    is_open: bool = False
    attributes: tuple[Attribute, ...] = ()
    note: str = ""


@dataclass(frozen=True)
class Plan:
    """A plan's counts and resources, in the plan's own order."""

    # plural, because a Reflex variable has methods called create and replace
    creates: int = 0
    updates: int = 0
    replaces: int = 0
    deletes: int = 0
    done: int = 0
    total: int = 0
    is_known: bool = False
    is_applied: bool = False
    outputs: tuple[str, ...] = ()
    resources: tuple[Resource, ...] = ()

    @property
    def has_changes(self) -> bool:
        return bool(self.creates or self.updates or self.replaces or self.deletes)


def build(job: Row, opened: Mapping[str, Row] | None = None) -> Plan:
    """Read a job's plan summary; an unknown plan when the job has none. `opened` has the changes of what is unfolded."""
    summary = job.get("plan_summary")
    if summary is None:
        return Plan()
    is_applied = job.get("type") in ("APPLY", "DESTROY")
    built = (_resource(row, is_applied, job) for row in (summary.get("resources") or [])[:MAX_RESOURCES])
    resources = tuple(_unfolded(resource, (opened or {}).get(resource.address)) for resource in built)
    counts = {f"{name}s": int(summary.get(name) or 0) for name in ("create", "update", "replace", "delete")}
    return Plan(
        **counts,
        done=sum(1 for item in resources if item.state == "DONE"),
        total=sum(counts.values()),
        is_known=True,
        is_applied=is_applied,
        outputs=tuple(_output(row) for row in summary.get("outputs") or []),
        resources=resources,
    )


def _resource(row: Row, is_applied: bool, job: Row) -> Resource:
    symbol, style, word = ACTIONS.get(str(row.get("action")), _UNKNOWN)
    state = _state(row, job) if is_applied else ""
    return Resource(str(row.get("address") or row.get("name") or "?"), symbol, style, word, state)


def _unfolded(resource: Resource, changes: Row | None) -> Resource:
    if changes is None:
        return resource
    attributes = tuple(map(_attribute, changes.get("attributes") or []))
    return replace(resource, is_open=True, attributes=attributes, note=_note(changes))


def _note(changes: Row) -> str:
    same = int(changes.get("unchanged") or 0)
    if changes.get("is_truncated"):
        return "There are more; the log has them all."
    if not changes.get("attributes"):
        return "Its attributes were not recorded; the log has them."
    return f"{count(same, 'attribute')} {'does' if same == 1 else 'do'} not change." if same else ""


def _attribute(row: Row) -> Attribute:
    kind = str(row.get("kind"))
    symbol, style = {"add": ("+", "p-c"), "remove": ("−", "p-d")}.get(kind, ("~", "p-u"))
    hidden = "(sensitive)" if row.get("is_sensitive") else ""
    new_note = "(known after apply)" if row.get("is_unknown") else f"{hidden}, changed" if hidden else ""
    return read(
        Attribute,
        row,
        symbol=symbol,
        style=style,
        old=row.get("before") or "",
        new=row.get("after") or "",
        old_note="not set" if kind == "add" else hidden,
        new_note="not set" if kind == "remove" else new_note,
        is_forcing=row.get("forces_replacement"),
    )


def sentence(plan: Plan) -> str:
    """Describe a plan in a sentence, for anyone who decides about it."""
    if not plan.has_changes:
        return "No resource changes, only outputs." if plan.outputs else "Nothing changes."
    counts = (
        (plan.creates, "created"),
        (plan.updates, "updated in place"),
        (plan.replaces, "replaced"),
        (plan.deletes, "deleted"),
    )
    parts = [
        f"{count(number, 'resource')} {'is' if number == 1 else 'are'} {word}" for number, word in counts if number
    ]
    return ", ".join(parts) + ("." if plan.deletes or plan.replaces else ", nothing is deleted.")


def _state(row: Row, job: Row) -> str:
    # An apply that succeeded has done everything, also where the engine did not report each resource.
    if "SUCCEEDED" in (row.get("status"), job.get("status")):
        return "DONE"
    if row.get("status") == "RUNNING":
        return "RUNNING" if job.get("status") == "PROCESSING" else "STOPPED"
    return "FAILED" if row.get("status") == "FAILED" else "PENDING"


def _output(row: Row) -> str:
    symbol = {"create": "+", "update": "~", "delete": "−"}.get(str(row.get("action")), "")
    return f"{symbol} output {row.get('name')}".strip()
