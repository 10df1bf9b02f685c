"""Whether a part answers; the one module of the core that talks HTTP."""

import asyncio
import ssl

import httpx

from stack.postgres import Cluster
from stack.settings import Settings

# Parts are checked on this machine and without TLS: reading everybody's certificates takes 25 ms, every few seconds, for each part.
NO_AUTHORITIES = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)


async def ask(url: str) -> int:
    """The status that a GET is answered with; 0 when there is no answer."""
    try:
        async with httpx.AsyncClient(timeout=5, trust_env=False, verify=NO_AUTHORITIES) as client:
            return (await client.get(url)).status_code
    except httpx.HTTPError:
        return 0


async def is_answering(url: str) -> bool:
    """Whether a GET is answered without a server error."""
    return 0 < await ask(url) < httpx.codes.INTERNAL_SERVER_ERROR


async def is_gateway_healthy(settings: Settings) -> bool:
    """REST and Auth answer and reach the database."""
    return await is_answering(f"http://127.0.0.1:{settings.gateway_port}/health")


async def is_gateway_alive(settings: Settings) -> bool:
    """The process answers, whatever it says: it must not be ended because the database is away."""
    return await ask(f"http://127.0.0.1:{settings.gateway_port}/health") > 0


async def is_functions_healthy(settings: Settings) -> bool:
    """The router answers for the health function."""
    return await is_answering(f"{settings.functions_url}/health")


async def is_dashboard_healthy(settings: Settings) -> bool:
    """The page is served."""
    return await is_answering(f"http://127.0.0.1:{settings.dashboard_port}/")


async def is_postgres_healthy(cluster: Cluster) -> bool:
    """A query is answered."""
    return await asyncio.to_thread(cluster.is_ready)
