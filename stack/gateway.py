"""One ASGI application for the whole Supabase API: REST, Auth, Realtime, and the way to the edge functions."""

import asyncio
import contextlib
import logging
import tomllib
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass, replace
from pathlib import Path
from urllib.parse import urlsplit

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import BaseRoute, Mount, Route
from starlette.types import ASGIApp, Receive, Scope, Send

from stack.asgi import BehindProxy
from stack.auth.access import Access
from stack.auth.app import AuthApp
from stack.auth.factors import Factors
from stack.auth.federation import Federation
from stack.auth.limits import Limiter, Limits
from stack.auth.mails import Mails
from stack.auth.oidc import Oidc, Outgoing
from stack.auth.passwords import Passwords
from stack.auth.sealing import Seal
from stack.auth.service import AuthService
from stack.auth.sessions import AuthSessions
from stack.auth.settings import Options
from stack.auth.store import Store
from stack.auth.tokens import KeyRing
from stack.auth.users import seconds_of
from stack.proxy import AtRoot, FunctionsProxy
from stack.realtime.server import Realtime, create_realtime
from stack.rest.app import RestApp
from stack.rest.pool import DatabaseError, DatabaseGone, Pool, PoolTimeout, Statement
from stack.rest.store import CatalogStore
from stack.secrets import Secrets, load_secrets
from stack.settings import Settings


@dataclass(frozen=True)
class ProjectConfig:
    """The settings of one project."""

    schemas: tuple[str, ...]
    most_rows: int
    access_seconds: int
    reuse_seconds: int
    shortest_password: int
    auth: Options


def read_project(path: Path) -> ProjectConfig:
    """Read the file if there is one; what it does not set is as on hosted."""
    found = tomllib.loads(path.read_text()) if path.exists() else {}
    api, auth = found.get("api", {}), found.get("auth", {})
    mail = auth.get("email", {})
    can_sign_up = auth.get("enable_signup", True) and mail.get("enable_signup", True)
    return ProjectConfig(
        schemas=tuple(api.get("schemas", ("public",))),
        most_rows=api.get("max_rows", 1000),
        access_seconds=auth.get("jwt_expiry", 3600),
        reuse_seconds=auth.get("refresh_token_reuse_interval", 10),
        shortest_password=auth.get("minimum_password_length", 6),
        auth=Options(
            can_sign_up,
            auth.get("site_url", "http://localhost:3000"),
            tuple(auth.get("additional_redirect_urls", ())),
            confirms_twice=mail.get("double_confirm_changes", True),
            mail_seconds=max(1.0, seconds_of(mail.get("max_frequency", "60s"))),
        ),
    )


HEALTH_SECONDS = 4.0
# Rows that do not fit into the memory allowed are written to PostgreSQL's disk, and leave nothing there.
WRITES = (
    Statement(b"select set_config('work_mem', '64kB', true)"),
    Statement(b"select count(*) from generate_series(1, 10000)"),
)
log = logging.getLogger("stack.gateway")


@dataclass(frozen=True)
class Services:
    """Everything the application holds open while it runs."""

    pool: Pool
    catalog: CatalogStore
    store: Store
    passwords: Passwords
    functions: FunctionsProxy
    realtime: Realtime

    @contextlib.asynccontextmanager
    async def lifespan(self, _: Starlette) -> AsyncIterator[None]:
        """Open everything; close it in the opposite order."""
        async with contextlib.AsyncExitStack() as stack:
            stack.callback(self.pool.close)
            stack.callback(self.passwords.close)
            await self.store.open()
            stack.push_async_callback(self.store.close)
            await self.functions.open()
            stack.push_async_callback(self.functions.close)
            listening = asyncio.create_task(self.catalog.run())
            stack.push_async_callback(_stop, listening)
            await stack.enter_async_context(self.realtime.lifespan())
            yield


def create() -> ASGIApp:
    """Build the gateway with the settings and secrets of this state folder; granian runs it once in each worker process."""
    settings = Settings()
    secrets = load_secrets(settings.secrets_file)
    config = read_project(settings.supabase_folder / "config.toml")
    ring = KeyRing(secrets.signing_jwk, secrets.jwt_secret, settings.auth_issuer)
    access = Access(secrets.publishable_key, secrets.secret_key, secrets.forwarding_key, ring)
    services = _services(settings, secrets, config)
    rest = RestApp(access, services.pool, services.catalog, config.most_rows)
    service = _auth_service(settings, services, ring, config)
    auth = AuthApp(access, service, secrets.public_jwk(), settings.url)

    @contextlib.asynccontextmanager
    async def lifespan(app: Starlette) -> AsyncIterator[None]:
        async with services.lifespan(app):
            asking = asyncio.create_task(service.federation.keep_rereading(config.access_seconds))
            yield
            await _stop(asking)

    at_root = AtRoot(services.functions, "terraform")
    routes: list[BaseRoute] = [
        Mount("/auth/v1", app=auth),
        Mount("/functions/v1", app=services.functions),
        *services.realtime.routes,
        Route("/health", _health(services), methods=["GET"]),
        Route("/.well-known/terraform.json", at_root),
        Mount("/api/v2", app=at_root),
    ]
    others = Starlette(routes=routes, lifespan=lifespan, exception_handlers={404: _not_found})

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        """REST receives far more requests than anything else: it bypasses the routing."""
        is_rest = scope["type"] == "http" and scope["path"].startswith("/rest/v1/")
        await (rest if is_rest else others)(scope, receive, send)

    return BehindProxy(app, settings.address_header) if settings.address_header else app


def _services(settings: Settings, secrets: Secrets, config: ProjectConfig) -> Services:
    rest_url = settings.database_url("authenticator", secrets.password("authenticator"))
    auth_url = settings.database_url("supabase_auth_admin", secrets.password("supabase_auth_admin"))
    return Services(
        pool=Pool(rest_url),
        catalog=CatalogStore(rest_url, config.schemas),
        store=Store(auth_url),
        passwords=Passwords(settings.password_rounds, shortest=config.shortest_password),
        functions=FunctionsProxy(settings.functions_url),
        realtime=create_realtime(settings, secrets),
    )


def _auth_service(settings: Settings, services: Services, ring: KeyRing, config: ProjectConfig) -> AuthService:
    sessions = AuthSessions(services.store, ring, settings.auth_issuer, config.access_seconds, config.reuse_seconds)
    # Hosted's numbers are for strangers; behind one address there may be a whole team and its tests.
    mails = Limiter(1, config.auth.mail_seconds)
    limits = Limits(requests=Limiter(3000, 300), failures=Limiter(10, 300), mails=mails)
    options = replace(config.auth, sign_up=settings.sign_up)
    if urlsplit(options.site_url).hostname in ("localhost", "127.0.0.1"):
        # The file names a developer's own port; this stack's dashboard may be on another.
        local = (settings.dashboard_local_url, f"http://127.0.0.1:{settings.dashboard_port}")
        own = (*options.redirect_urls, *local)
        options = replace(options, site_url=settings.dashboard_url, redirect_urls=own)
    letters = Mails(services.store, sessions, limits, options, ring)
    factors = Factors(services.store, sessions, limits, options, Seal("factors", ring.secret))
    oidc = Oidc(Outgoing(settings.functions_allow_net))
    federation = Federation(services.store, sessions, limits, letters, ring, oidc, settings.url)
    return AuthService(services.store, sessions, services.passwords, limits, options, letters, factors, federation)


def _health(services: Services) -> Callable[[Request], Awaitable[Response]]:
    async def health(_: Request) -> Response:
        """Whether the database answers through the same pool as requests and can write, and the schema is known."""
        try:
            async with asyncio.timeout(HEALTH_SECONDS), services.pool.connection() as connection:
                await connection.run(WRITES)
        except DatabaseError as error:
            log.warning("The database refuses to write: %s", error)
            hint = "Free space on PostgreSQL's disk."
            return JSONResponse({"status": "unhealthy", "database": f"cannot write: {error}", "hint": hint}, 503)
        except (DatabaseGone, PoolTimeout, TimeoutError) as error:
            log.warning("The database does not answer: %s", type(error).__name__)
            return JSONResponse({"status": "unhealthy", "database": "unreachable"}, 503)
        if services.catalog.current is None:
            return JSONResponse({"status": "unhealthy", "database": "schema not read yet"}, 503)
        return JSONResponse({"status": "healthy"})

    return health


async def _stop(task: asyncio.Task[None]) -> None:
    task.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await task


async def _not_found(_: Request, __: Exception) -> Response:
    return JSONResponse({"message": "no Route matched with those values"}, 404)
