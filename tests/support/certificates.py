"""One TLS context for all of httpx's clients: reading the world's certificates for each request costs more than the request."""

import os
from collections.abc import Callable
from functools import cache, wraps
from ssl import SSLContext
from typing import Any

import httpx

# What httpx reads beside its arguments.
VARIABLES = ("SSL_CERT_FILE", "SSL_CERT_DIR")


def read_once() -> None:
    """Let clients that would build the same context share it, in this process."""
    default: Any = httpx._transports.default
    default.create_ssl_context = _shared(default.create_ssl_context)


def _shared(make: Callable[..., SSLContext]) -> Callable[..., SSLContext]:
    @cache
    def made(_variables: tuple[str | None, ...], *arguments: Any, **options: Any) -> SSLContext:
        return make(*arguments, **options)

    @wraps(make)
    def shared(*arguments: Any, **options: Any) -> SSLContext:
        return made(tuple(map(os.environ.get, VARIABLES)), *arguments, **options)

    return shared
