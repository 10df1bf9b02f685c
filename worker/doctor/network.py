"""Checks of the network: the project, its clock, the credential, the key, Realtime."""

import asyncio
import email.utils
import time
from urllib.parse import urlsplit

import httpx
from realtime import AsyncRealtimeClient

from worker.api.transport import Transport
from worker.clock import SKEW_LIMIT_SECONDS, SKEW_WARNING_SECONDS
from worker.doctor.check import Check, fail, ok, skip, warn
from worker.errors import Retryable, TokenExpired, WorkerError
from worker.logs.redactor import KnownSecrets
from worker.session.credentials import Credentials
from worker.settings.model import Settings

TIMEOUT_SECONDS = 15
ASK = "See the runner's page, and the log of the worker-session function."
DEPLOY = "Deploy the worker-session function: `supabase functions deploy`."


async def network_checks(settings: Settings) -> list[Check]:
    """Look at the project from here, one thing after the other."""
    async with httpx.AsyncClient(base_url=settings.server.url, timeout=TIMEOUT_SECONDS) as http:
        reached = await reach(http, settings)
        if any(check.verdict == "failed" for check in reached):
            names = ("Credential", "Publishable key", "Realtime")
            return [*reached, *(skip(name, "the URL was not reached") for name in names)]
        proof, publishable = await credential(settings)
        return [*reached, proof, await key(http, publishable), await realtime(settings, publishable)]


async def reach(http: httpx.AsyncClient, settings: Settings) -> list[Check]:
    """Ask the project for its health, and compare clocks by its answer."""
    before = time.time()
    try:
        answer = await http.get("/functions/v1/health")
    except httpx.HTTPError as error:
        return [fail("URL", f"{settings.server.url}: {explain(error)}", remedy_for(error, settings.server.url))]
    after = time.time()
    seen = f"{settings.server.url} answers in {(after - before) * 1000:.0f} ms"
    if answer.status_code >= 500:
        return [fail("URL", f"{settings.server.url} answers {answer.status_code}", "Look at the project's own health.")]
    return [ok("URL", seen), clock(answer.headers.get("date"), (before + after) / 2)]


def explain(error: httpx.HTTPError) -> str:
    """Format a connection error without the library's words around it."""
    return str(error) or type(error).__name__


def remedy_for(error: httpx.HTTPError, url: str) -> str:
    """Suggest what to try, by the kind of error."""
    text = str(error).lower()
    host = urlsplit(url).hostname
    if "certificate" in text:
        return "Trust the certificate's authority: set SSL_CERT_FILE to a bundle that has it."
    if "name or service" in text or "nodename" in text or "resolution" in text:
        return f"See that {host} can be resolved here, and that SUPABASE_URL is spelt right."
    if isinstance(error, httpx.TimeoutException):
        return "Let outbound HTTPS through the firewall, or set HTTPS_PROXY."
    return "See that SUPABASE_URL names the project's API and that it is running."


def clock(date: str | None, now: float) -> Check:
    """Compare this machine's clock with the server's."""
    if date is None:
        return skip("Clock", "the server told no time")
    skew = now - email.utils.parsedate_to_datetime(date).timestamp()
    seen = f"{abs(skew):.0f} s {'ahead of' if skew > 0 else 'behind'} the server"
    remedy = "Set the clock by NTP: `timedatectl set-ntp true`."
    if abs(skew) > SKEW_LIMIT_SECONDS:
        return fail("Clock", seen, remedy)
    return warn("Clock", seen, remedy) if abs(skew) > SKEW_WARNING_SECONDS else ok("Clock", seen)


async def credential(settings: Settings) -> tuple[Check, str | None]:
    """Check the credential, which brings the publishable key; no session is opened, so that a running runner is not disturbed."""
    try:
        async with Transport(settings.server.url, timeout_seconds=TIMEOUT_SECONDS) as transport:
            proof = await Credentials(settings, transport, KnownSecrets()).proof()
            body = {"check": True, "worker_id": str(settings.runner.id), **proof}
            reply = await transport.function("worker-session", body)
    except TokenExpired as error:
        # There is no token yet: a gateway that requires one refuses before the function can decide.
        return fail("Credential", error.message, DEPLOY), None
    except Retryable as error:
        return warn("Credential", error.message, error.hint or "Wait a minute and try again."), None
    except WorkerError as error:
        # The project knows best what is wrong; without its own word the function is not there.
        return fail("Credential", error.message, error.hint or (ASK if error.is_ours else DEPLOY)), None
    return ok("Credential", f"accepted for runner {settings.runner.id}"), reply.get("publishable_key")


async def key(http: httpx.AsyncClient, publishable: str | None) -> Check:
    """Try the publishable key that a session would bring."""
    if publishable is None:
        return skip("Publishable key", "it comes with an accepted credential")
    try:
        answer = await http.get("/auth/v1/settings", headers={"apikey": publishable})
    except httpx.HTTPError as error:
        return fail("Publishable key", explain(error), "Look at the project's own health.")
    if answer.is_success:
        return ok("Publishable key", f"{publishable[:16]}… is accepted")
    remedy = "Set SUPABASE_PUBLISHABLE_KEY for the functions to a key that the project knows."
    return fail("Publishable key", f"the API answers {answer.status_code}", remedy)


async def realtime(settings: Settings, publishable: str | None) -> Check:
    """Open the doorbell's websocket; without it the runner polls."""
    if not settings.server.realtime:
        return skip("Realtime", "switched off in the settings: the runner polls")
    if publishable is None:
        return skip("Realtime", "needs the publishable key")
    url = settings.server.url.replace("http", "ws", 1) + "/realtime/v1"
    client = AsyncRealtimeClient(url, publishable, auto_reconnect=False, max_retries=1)
    try:
        async with asyncio.timeout(TIMEOUT_SECONDS):
            await client.connect()
        await client.close()
    except Exception as error:  # noqa: BLE001 - whatever the library raises, polling continues
        seconds = settings.server.poll_seconds
        seen_words = f"the websocket does not open ({type(error).__name__}); jobs start within {seconds:g} s by polling"
        return warn("Realtime", seen_words, "Let websockets through the proxy or the firewall.")
    return ok("Realtime", "the websocket opens")
