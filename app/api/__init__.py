"""What the browser reads without the websocket: logs, exports and downloads, each as the person whose cookie it is."""

from starlette.routing import BaseRoute

from app.api import audit, logs, states
from app.services.runtime import Runtime


def build_routes(runtime: Runtime) -> list[BaseRoute]:
    """Name the routes under /api."""
    return [*logs.build_routes(runtime), *audit.build_routes(runtime), *states.build_routes(runtime)]
