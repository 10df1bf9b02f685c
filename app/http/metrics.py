"""The installation's figures for a monitoring system: the project's own function answers, with the caller's credential."""

from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import BaseRoute, Route

from app.http.api_routes import HEADERS
from app.project.errors import Unreachable
from app.project.runtime import Runtime


def build_routes(runtime: Runtime) -> list[BaseRoute]:
    """Name the route, where monitoring systems look for it."""

    async def answer(request: Request) -> Response:
        try:
            found = await runtime.authorized.client.metrics(request.headers.get("authorization", ""))
        except Unreachable as error:
            return JSONResponse({"message": error.message}, status_code=503, headers=HEADERS)
        kept = {"content-type": found.headers.get("content-type", "text/plain"), **HEADERS}
        return Response(found.content, status_code=found.status_code, headers=kept)

    return [Route("/metrics", answer, methods=["GET"])]
