"""A page offers exactly the actions that the database allows: each button's role against the reference of permissions."""

import ast
import inspect
import re
import textwrap
from collections.abc import Callable, Iterator
from functools import cache
from typing import Any

import pytest
from reflex.event import EventSpec
from reflex_base.components.component import BaseComponent
from reflex_components_core.core.cond import Cond

from app.app import PAGES as ROUTES
from app.frame.session import OPERATORS_MAY
from stack.settings import PROJECT

RANKS = ("viewer", "operator", "admin", "owner")
# A page's conditions on a role, as its JavaScript writes them; a member's can_change is made of the reader's role.
ASKS = (
    (re.compile(r'role_rx_state_.*"owner"'), 3),
    (re.compile("can_admin|can_change"), 2),
    # A role at a path is enough for what a page then asks a path for.
    (re.compile("can_(operate|run|write)"), 1),
)
WORDS = re.compile(r"\b(Operator|Admin|Owner)s\b")
# An event that opens a dialog calls nothing yet: these are the functions that the dialog is for.
OPENERS = {
    "AddRunnerState.open_sheet": "register_worker",
    "RunnerEditState.edit": "update_worker",
    "RunnerState.set_assigning": "assign_worker",
    "RolloutState.ask_abort": "abort_rollout",
    "RunState.ask": "enqueue_job",
    "ModuleActionState.ask_lock": "lock_module",
    "ModuleActionState.ask_roll_back": "roll_back_state",
    "ModuleFormState.new_module": "create_module",
    "ModuleFormState.edit_module": "update_module",
    "ModuleFormState.new_group": "upsert_group",
    "ModuleFormState.edit_group": "upsert_group",
    "MembersState.open_invite": "invite_member",
    "AccountsState.add": "create_service_account",
    "AccountsState.edit": "update_service_account",
    "IdentitiesState.add": "create_cloud_identity",
    "IdentitiesState.edit": "update_cloud_identity",
    "IdentitiesState.ask_remove": "remove_cloud_identity",
    "JobIdentitiesState.add": "attach_identity",
    "JobIdentitiesState.edit": "attach_identity",
    "JobIdentitiesState.ask_remove": "detach_identity",
    "PoliciesState.add": "attach_policy",
    "PoliciesState.edit": "attach_policy",
    "PoliciesState.ask_remove": "detach_policy",
}
# Opened by the name of the question.
QUESTIONS = {
    ("JobActionState.ask", "KILL"): "cancel_job",
    ("JobActionState.ask", "retry"): "resolve_attention",
    ("JobActionState.ask", "mark_failed"): "resolve_attention",
    ("JobActionState.ask", "release_lock"): "resolve_attention",
}


@cache
def least_ranks() -> dict[str, int]:
    """The least role that may call each function, according to the generated reference; the first one named."""
    text = (PROJECT / "docs" / "reference" / "permissions.md").read_text()
    found = {}
    for name, about in re.findall(r"^\| `(\w+)` \| authenticated \| (.*) \|$", text, re.MULTILINE):
        named = WORDS.search(about)
        found[name] = RANKS.index(named[1].lower()) if named else 0
    return found


@cache
def methods_of(state: type) -> dict[str, ast.AST]:
    tree = ast.parse(textwrap.dedent(inspect.getsource(state)))
    return {node.name: node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)}


def functions_called(state: type, method: str, seen: frozenset[str] = frozenset()) -> set[str]:
    """The database's functions that a handler names, itself or through its own helpers."""
    node = methods_of(state).get(method)
    if node is None or method in seen:
        return set()
    found: set[str] = set()
    for part in ast.walk(node):
        if isinstance(part, ast.Constant) and part.value in least_ranks():
            found.add(str(part.value))
        elif isinstance(part, ast.Attribute) and isinstance(part.value, ast.Name) and part.value.id == "self":
            found |= functions_called(state, part.attr, seen | {method})
    return found


def state_of(fn: Callable[..., Any]) -> type | None:
    found = inspect.getmodule(fn)
    state = getattr(found, fn.__qualname__.split(".")[0], None)
    return state if isinstance(state, type) else None


def needed(event: Any) -> set[str]:
    """The database's functions that an event of a page leads to."""
    fn = event.handler.fn
    name, state = fn.__qualname__, state_of(fn)
    if state is None:
        return set()
    if name in OPENERS:
        return {OPENERS[name]}
    asked = [str(value._var_value) for _, value in event.args if hasattr(value, "_var_value")]
    if name.endswith(".ask") and asked:
        known = QUESTIONS.get((name, asked[0]))
        return {known} if known else functions_called(state, f"_{asked[0]}")
    return functions_called(state, name.split(".")[1])


def rank_asked(expression: object) -> int:
    return next((rank for pattern, rank in ASKS if pattern.search(str(expression))), 0)


def shown(node: BaseComponent, rank: int = 0) -> Iterator[tuple[Any, int]]:
    """Every part of a page with the role that it is for; dialogs are left out, because the button that opens them is checked."""
    if type(node).__name__ in ("AlertDialogRoot", "DialogRoot", "DrawerRoot"):
        return
    yield node, max(rank, rank_asked(getattr(node, "disabled", "")))
    for number, child in enumerate(node.children):
        is_guarded = isinstance(node, Cond) and number == 0
        yield from shown(child, max(rank, rank_asked(node.cond)) if is_guarded else rank)  # type: ignore[attr-defined]


def offers(page: BaseComponent) -> Iterator[tuple[EventSpec, int]]:
    """Every event of a page with the role that it is offered to; a form is as open as the button that submits it."""
    for node, rank in shown(page):
        for trigger, chain in getattr(node, "event_triggers", {}).items():
            least = rank
            if trigger == "on_submit":
                least = min(own for part, own in shown(node, rank) if '"submit"' in str(getattr(part, "type", "")))
            yield from ((event, least) for event in getattr(chain, "events", []) if isinstance(event, EventSpec))


PAGES = {route.path: route for route in ROUTES}


@pytest.mark.parametrize("path", PAGES)
def test_a_page_offers_nothing_that_the_database_refuses(path: str) -> None:
    ranks = least_ranks()
    wrong = [
        f"{event.handler.fn.__qualname__} leads to {function}, which is for {RANKS[ranks[function]]}s"
        for event, rank in offers(PAGES[path].build())
        for function in needed(event)
        if rank < ranks[function]
    ]
    assert wrong == []


@pytest.mark.parametrize(
    ("path", "role"),
    [
        ("/dashboard/runners", "can_admin"),
        ("/dashboard/jobs", "can_run"),
        ("/dashboard/modules", "can_write"),
        ("/dashboard/settings/cloud-identities", "can_admin"),
        ("/dashboard/settings/service-accounts", "can_admin"),
        ("/dashboard/settings/notifications", "can_admin"),
        ("/dashboard/jobs/schedules", "can_operate"),
        ("/dashboard/settings/git", "can_admin"),
    ],
)
def test_an_empty_page_invites_only_permitted_roles_to_create_something(path: str, role: str) -> None:
    empty = (node for node, _ in shown(PAGES[path].build()) if "ry-empty" in str(getattr(node, "class_name", "")))
    texts = [str(part) for node in empty for part in node.children if type(part).__name__ == "P"]
    assert any(role in text for text in texts)


def test_the_reference_is_understood() -> None:
    ranks = least_ranks()
    assert (ranks["state_info"], ranks["drain_worker"], ranks["update_worker"], ranks["update_organization"]) == (
        0,
        1,
        2,
        3,
    )


def test_the_walk_finds_the_actions_of_the_pages() -> None:
    """A walk that found nothing would never complain."""
    found = {name for page in PAGES.values() for event, _ in offers(page.build()) for name in needed(event)}
    assert {"drain_worker", "set_worker_disabled", "register_worker", "enqueue_job", "approve_job"} <= found
    assert {"rotate_worker_token", "remove_worker", "update_worker", "cancel_job", "resolve_attention"} <= found


def test_the_verbs_of_the_pages_are_those_of_the_database() -> None:
    text = (PROJECT / "docs" / "reference" / "permissions.md").read_text()
    least = {
        verb: role
        for role, verbs in re.findall(r"^\| (viewer|operator|admin|owner) \| (.*) \|$", text, re.MULTILINE)
        for verb in re.findall(r"`([a-z._]+)`", verbs)
    }
    asked = {
        verb.value
        for path in (PROJECT / "app").rglob("*.py")
        for call in ast.walk(ast.parse(path.read_text()))
        if isinstance(call, ast.Call) and isinstance(call.func, ast.Name) and call.func.id == "may"
        for verb in call.args
        if isinstance(verb, ast.Constant)
    }
    assert len(asked) > 10
    assert {verb: least.get(verb) for verb in asked} == {
        verb: "operator" if verb in OPERATORS_MAY else "admin" for verb in asked
    }
    assert asked >= OPERATORS_MAY
