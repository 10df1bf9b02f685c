"""The process's services, built once; states reach them here because Reflex makes states itself."""

from dataclasses import dataclass
from functools import cache

from app.project.authorized_client import AuthorizedClient
from app.project.client import Client
from app.project.hub import TabHub
from app.project.realtime_client import RealtimeClient
from app.project.session_files import FileSessions
from app.project.sessions import MemorySessions, RedisSessions, Sessions
from app.project.settings import Settings, read_settings


@dataclass(frozen=True)
class Runtime:
    settings: Settings
    authorized: AuthorizedClient
    hub: TabHub


def _sessions(settings: Settings) -> Sessions:
    if settings.redis_url is not None:
        from redis.asyncio import Redis

        return RedisSessions(Redis.from_url(settings.redis_url, decode_responses=True))
    if settings.session_directory is not None:
        return FileSessions(settings.session_directory, settings.session_key)
    return MemorySessions()


def build_runtime(settings: Settings) -> Runtime:
    authorized = AuthorizedClient(Client(settings), _sessions(settings), silence_seconds=settings.silence_seconds)
    return Runtime(settings, authorized, TabHub(authorized, RealtimeClient(settings)))


@cache
def runtime() -> Runtime:
    return build_runtime(read_settings())
