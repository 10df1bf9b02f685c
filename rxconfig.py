"""How Reflex builds and serves the dashboard: one port, no telemetry, no outside request."""

import os
import sys
from pathlib import Path

import reflex as rx

from app.project.settings import read_settings
from wire import ports

PORT = int(os.environ.get("RUNYARD_DASHBOARD_PORT") or ports.DASHBOARD)
SETTINGS = read_settings()
# Often enough that a page which hears nothing for 20 s (assets/connection.js) knows that it is alone.
os.environ.setdefault("REFLEX_SOCKET_INTERVAL", "7")
os.environ.setdefault("REFLEX_SOCKET_TIMEOUT", "20")


config = rx.Config(
    app_name="app",
    # Only the frontend port: production serves page, websocket and routes on it,
    # and refuses to start when a different backend port is named.
    frontend_port=PORT,
    # Only this machine, until somebody says otherwise.
    backend_host=os.environ.get("RUNYARD_HOST", "127.0.0.1"),
    telemetry_enabled=False,
    show_built_with_reflex=False,
    # bun is looked for on PATH only, so an un-activated venv would not find its own.
    bun_path=Path(sys.prefix) / "bin" / "bun",
    # A browser may open the websocket from these; everything else is refused.
    cors_allowed_origins=list(SETTINGS.origins),
    # One worker keeps states in memory: faster, and nothing of them reaches the disk.
    state_manager_mode=rx.constants.StateManagerMode.REDIS
    if SETTINGS.redis_url
    else rx.constants.StateManagerMode.MEMORY,
    redis_url=SETTINGS.redis_url,
    plugins=[
        rx.plugins.RadixThemesPlugin(
            theme=rx.theme(
                accent_color="indigo",
                gray_color="slate",
                radius="large",
                scaling="100%",
                panel_background="solid",
            )
        ),
        rx.plugins.TailwindV4Plugin(),
    ],
    disable_plugins=[rx.plugins.SitemapPlugin],
)
