"""One module per page; each has ROUTES, which app.py registers."""

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import reflex as rx


@dataclass(frozen=True)
class Route:
    """A page: its address, its title, the function that builds it, and the events that load it."""

    path: str
    title: str
    build: Callable[[], rx.Component]
    on_load: Any = None


def say_in_address(path: str, query: str, *, is_step: bool = False) -> rx.event.EventSpec:
    """Put what was chosen on a page into its address; anyone who has gone on to another page meanwhile keeps that one's.

    A step is one that the browser's Back undoes.
    """
    here = f"location.pathname.replace(/\\/$/, '') === runyard.at({json.dumps(path)})"
    query = json.dumps(query)
    if not is_step:
        return rx.call_script(f"{here} && history.replaceState(null, '', location.pathname + {query})")
    # The router does not know of such a step, so that it loads nothing when the browser goes back.
    back = f"addEventListener('popstate', () => {here} && location.reload())"
    step = f"history.pushState(null, '', location.pathname + {query})"
    return rx.call_script(f"{here} && location.search !== {query} && ({step}, {back})")
