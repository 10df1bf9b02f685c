"""What the browser reads without the websocket: logs, exports and downloads, each as the person whose cookie it is."""

from starlette.routing import BaseRoute

from app.http import events, figures, jobs, metrics, records, states
from app.http.audit import routes as audit
from app.http.logs import routes as logs
from app.project.runtime import Runtime


def build_routes(runtime: Runtime) -> list[BaseRoute]:
    """Name the routes under /api, and /metrics."""
    return [
        *logs.build_routes(runtime),
        *audit.build_routes(runtime),
        *states.build_routes(runtime),
        *records.build_routes(runtime),
        *jobs.build_routes(runtime),
        *events.build_routes(runtime),
        *figures.build_routes(runtime),
        *metrics.build_routes(runtime),
    ]
