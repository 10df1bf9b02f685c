"""Calls that start something once, however often they are repeated."""

import uuid
from typing import Any

from cli.client.api import Api
from cli.jobs.follow import patiently


def call_keyed(api: Api, name: str, options: dict[str, Any], key: str | None, **arguments: Any) -> Any:
    """Call a function under a key, one of our own if none is given: after a lost answer the call is repeated, and starts nothing new."""
    keyed = {**options, "idempotency_key": key or f"cli-{uuid.uuid4()}"}
    return patiently(lambda: api.call(name, options=keyed, **arguments))
