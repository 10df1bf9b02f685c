"""The plain routes in front of Reflex's own: those of the features, and what belongs to no feature."""

from collections.abc import Awaitable, Callable, Iterable

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, RedirectResponse, Response
from starlette.routing import BaseRoute, Mount, Route
from starlette.staticfiles import StaticFiles

from app.http.api_routes import HEADERS
from app.project.errors import Unreachable
from app.project.runtime import Runtime


async def alive(request: Request) -> Response:
    """Answer that the process serves, whatever the project's condition."""
    return JSONResponse({"status": "ok"})


def clock(runtime: Runtime) -> Callable[[Request], Awaitable[Response]]:
    """Return the project's time in milliseconds, so that a page can count from it."""

    async def answer(request: Request) -> Response:
        now = {"now": round(runtime.authorized.project_clock.now() * 1000)}
        return JSONResponse(now, headers={"Cache-Control": "no-store"})

    return answer


async def home(request: Request) -> Response:
    """Send people who ask for the bare address to the fleet."""
    return RedirectResponse("/dashboard/runners")


def build_api(runtime: Runtime, features: Iterable[Callable[[Runtime], list[BaseRoute]]]) -> Starlette:
    routes = [route for build_routes in features for route in build_routes(runtime)]
    routes += [
        Route("/clock", clock(runtime)),
        Route("/metrics", metrics(runtime), methods=["GET"]),
        Route("/healthz", alive),
        Route("/", home),
        Route("/dashboard", home),
    ]
    # check_dir is off: the site may be built after the dashboard started.
    docs = StaticFiles(directory=runtime.settings.docs_directory, html=True, check_dir=False)
    return Starlette(routes=[*routes, Mount("/docs", docs)])


def metrics(runtime: Runtime) -> Callable[[Request], Awaitable[Response]]:
    """Return the installation's figures for a monitoring system: the project's own function answers, with the caller's credential."""

    async def answer(request: Request) -> Response:
        try:
            found = await runtime.authorized.client.metrics(request.headers.get("authorization", ""))
        except Unreachable as error:
            return JSONResponse({"message": error.message}, status_code=503, headers=HEADERS)
        kept = {"content-type": found.headers.get("content-type", "text/plain"), **HEADERS}
        return Response(found.content, status_code=found.status_code, headers=kept)

    return answer
