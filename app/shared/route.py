"""One module per page; each has ROUTES, which app.py registers."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import reflex as rx


@dataclass(frozen=True)
class Route:
    """Where a page is found, what builds it, and what loads it."""

    path: str
    title: str
    build: Callable[[], rx.Component]
    on_load: Any = None
