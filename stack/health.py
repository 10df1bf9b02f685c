"""Whether a part answers; the one module of the core that talks HTTP."""

import asyncio

import httpx

from stack.postgres import Cluster
from stack.secrets import Secrets
from stack.settings import Settings


async def is_answering(url: str, headers: dict[str, str] | None = None) -> bool:
    """Whether a GET is answered without a server error."""
    try:
        async with httpx.AsyncClient(timeout=5, trust_env=False) as client:
            response = await client.get(url, headers=headers)
    except httpx.HTTPError:
        return False
    return response.status_code < httpx.codes.INTERNAL_SERVER_ERROR


async def is_gateway_healthy(settings: Settings, secrets: Secrets) -> bool:
    """Auth answers, and REST reaches the database."""
    base, headers = f"http://127.0.0.1:{settings.gateway_port}", {"apikey": secrets.publishable_key}
    answers = await asyncio.gather(
        is_answering(f"{base}/auth/v1/health", headers), is_answering(f"{base}/rest/v1/", headers)
    )
    return all(answers)


async def is_functions_healthy(settings: Settings) -> bool:
    """The router answers for the health function."""
    return await is_answering(f"{settings.functions_url}/health")


async def is_dashboard_healthy(settings: Settings) -> bool:
    """The page is served."""
    return await is_answering(f"http://127.0.0.1:{settings.dashboard_port}/")


async def is_postgres_healthy(cluster: Cluster) -> bool:
    """A query is answered."""
    return await asyncio.to_thread(cluster.is_ready)
