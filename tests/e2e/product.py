"""The product as `make up` starts it, for tests that look at it from outside."""

import asyncio
import json
import time
import uuid
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit

import httpx
import psycopg
from websockets.asyncio.client import ClientConnection, connect

from tests.support.stack import RunningStack

PASSWORD = "correct-horse-battery"


@dataclass(frozen=True)
class Person:
    """Somebody with an account and an organisation of their own."""

    email: str
    password: str
    org_id: str
    org_name: str
    token: str


@dataclass(frozen=True)
class Product:
    """A running stack with its dashboard."""

    stack: RunningStack

    @property
    def url(self) -> str:
        """The address at which a person opens it."""
        return self.stack.settings.dashboard_url

    def rpc(self, token: str, name: str, arguments: dict[str, Any]) -> Any:
        """Call a database function as somebody."""
        headers = {"apikey": self.stack.publishable_key, "Authorization": f"Bearer {token}"}
        answer = httpx.post(f"{self.stack.url}/rest/v1/rpc/{name}", json=arguments, headers=headers, timeout=60)
        assert answer.is_success, answer.text
        return answer.json() if answer.content else None

    def person(self, name: str = "ops") -> Person:
        """Create an account and its organisation."""
        unique = uuid.uuid4().hex[:8]
        email = f"{name}-{unique}@example.com"
        headers = {"apikey": self.stack.publishable_key}
        body = {"email": email, "password": PASSWORD}
        answer = httpx.post(f"{self.stack.url}/auth/v1/signup", json=body, headers=headers, timeout=60)
        assert answer.is_success, answer.text
        token = str(answer.json()["access_token"])
        title = f"{name.title()} {unique}"
        org = self.rpc(token, "create_organization", {"p_name": title, "p_slug": f"{name}-{unique}"})
        return Person(email, PASSWORD, str(org["id"]), title, token)

    def runner(self, person: Person, name: str, **options: Any) -> dict[str, Any]:
        """Register a runner that never connects."""
        digest = "$2b$10$" + "a" * 53
        arguments = {"p_org": person.org_id, "p_name": name, "p_token_hash": digest, "p_token_hint": "abcd"}
        row: dict[str, Any] = self.rpc(person.token, "register_worker", {**arguments, "p_options": options})
        return row

    def sql(self, statement: str, *values: Any) -> list[tuple[Any, ...]]:
        """Look behind the scenes, or push something there."""
        with psycopg.connect(self.stack.db_url, autocommit=True) as connection:
            cursor = connection.execute(statement, values)
            return cursor.fetchall() if cursor.description else []

    def page(self, path: str) -> str:
        """Read a file that anybody may read."""
        return httpx.get(f"{self.url}{path}", follow_redirects=True, timeout=60).text

    def sign_out(self, cookie: str) -> None:
        """Sign out through the dashboard's route."""
        httpx.post(f"{self.url}/auth/logout", json={}, headers={"Origin": self.url, "Cookie": cookie}, timeout=60)

    def cookie(self, person: Person) -> str:
        """Sign in through the dashboard's route and return the Cookie header."""
        answer = httpx.post(
            f"{self.url}/auth/login",
            json={"email": person.email, "password": person.password},
            headers={"Origin": self.url},
            timeout=60,
        )
        assert answer.is_success, answer.text
        return f"runyard_sid={answer.cookies['runyard_sid']}"


@dataclass
class Tab:
    """A browser tab's websocket, without the browser."""

    socket: ClientConnection
    frames: list[str] = field(default_factory=list)

    async def send(self, name: str, payload: dict[str, Any] | None = None, path: str = "/login") -> None:
        """Send an event as the page would, or as nobody's page would."""
        event = {"name": name, "payload": payload or {}, "router_data": {"pathname": path, "asPath": path}}
        await self.socket.send("42/_event," + json.dumps(["event", event]))

    async def answers(self, seconds: float = 0.6, most: float = 12.0) -> list[dict[str, Any]]:
        """Collect answers until none arrives for a while; a live page is never quiet for long."""
        found: list[dict[str, Any]] = []
        end = time.monotonic() + most
        while time.monotonic() < end:
            try:
                frame = str(await _within(self.socket, seconds))
            except TimeoutError:
                break
            self.frames.append(frame)
            if frame == "2":
                await self.socket.send("3")
            elif frame.startswith("42/_event,"):
                found.append(json.loads(frame.removeprefix("42/_event,"))[1])
        return found

    async def until(
        self, is_there: Callable[[list[dict[str, Any]]], object], most: float = 120.0
    ) -> list[dict[str, Any]]:
        """Collect answers until the wanted one is among them."""
        found: list[dict[str, Any]] = []
        end = time.monotonic() + most
        while not is_there(found):
            assert time.monotonic() < end, f"it never came; the last of {len(self.frames)} frames: {self.frames[-3:]}"
            found += await self.answers(0.2, most=1.0)
        return found


async def _within(socket: ClientConnection, seconds: float) -> str | bytes:
    async with asyncio.timeout(seconds):
        return await socket.recv()


async def open_tab(product: Product, cookie: str = "", origin: str = "", token: str = "") -> Tab:
    """Connect to the dashboard's websocket and join its namespace."""
    address = urlsplit(product.url)
    headers = {"Cookie": cookie} if cookie else {}
    query = f"token={token or uuid.uuid4()}&EIO=4&transport=websocket"
    socket = await connect(
        f"ws://{address.netloc}/_event/?{query}",
        additional_headers=headers,
        origin=origin or product.url,  # type: ignore[arg-type]
        max_size=None,
    )
    tab = Tab(socket)
    await _within(socket, 60)
    await socket.send("40/_event,")
    await tab.answers(0.3)
    return tab


def deltas(answers: list[dict[str, Any]]) -> dict[str, dict[str, Any]]:
    """Merge the vars of our own states from the answers."""
    merged: dict[str, dict[str, Any]] = {}
    for answer in answers:
        for state, values in (answer.get("delta") or {}).items():
            if "app___" in state:
                merged.setdefault(state, {}).update(values)
    return merged


def redirects(answers: list[dict[str, Any]]) -> list[str]:
    """Name where the server sends the tab."""
    events = [event for answer in answers for event in answer.get("events") or []]
    ways = [event["payload"]["path"] for event in events if event["name"] == "_redirect"]
    return ways + ["/login?ended=1" for event in events if "signInAgain" in str(event["payload"])]
