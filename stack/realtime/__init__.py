"""The embedded Realtime server: Supabase's websocket protocol over one PostgreSQL."""

from stack.realtime.server import Realtime, create_realtime
from stack.realtime.settings import RealtimeSettings

__all__ = ["Realtime", "RealtimeSettings", "create_realtime"]
