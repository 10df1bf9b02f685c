"""Asking the project for a credential, where a refusal would end the process: only the project's own word counts."""

from collections.abc import Mapping
from typing import Any

from worker.api.replies import Document
from worker.api.transport import Transport
from worker.errors import Rejected, Retryable, TokenExpired


async def ask(transport: Transport, name: str, body: Mapping[str, Any], *, is_authorised: bool = False) -> Document:
    """Call an edge function; repeat a call that something on the way refuses, such as a proxy without a route yet."""
    try:
        return await transport.function(name, body, is_authorised=is_authorised)
    except (Rejected, TokenExpired) as error:
        if error.is_ours:
            raise
        hint = f"The project itself did not answer. Is {transport.url} its address (SUPABASE_URL), and is it running?"
        raise Retryable(error.message, code=error.code, hint=error.hint or hint) from error
