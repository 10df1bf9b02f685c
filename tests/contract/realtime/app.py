"""The application that granian runs in the Realtime tests: the Realtime server alone, on the database that the environment names."""

import json
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from starlette.applications import Starlette

from stack.realtime.hub import Addresses
from stack.realtime.server import make_server
from stack.realtime.settings import RealtimeSettings
from stack.realtime.tokens import TokenVerifier
from stack.secrets import Secrets
from tests.contract.tokens import ISSUER


def create() -> Starlette:
    secrets = Secrets.model_validate_json(os.environ["REALTIME_TEST_SECRETS"])
    addresses = Addresses(*json.loads(os.environ["REALTIME_TEST_ADDRESSES"]))
    realtime = make_server(addresses, TokenVerifier.of(secrets, ISSUER), RealtimeSettings())

    @asynccontextmanager
    async def lifespan(_: Starlette) -> AsyncIterator[None]:
        async with realtime.lifespan():
            yield

    return Starlette(routes=realtime.routes, lifespan=lifespan)
