"""The websocket from the outside: every handler without a session, from another organisation, with nonsense."""

import re
import uuid
from typing import Any

import httpx
import pytest
from websockets.exceptions import InvalidStatus

from app.guard.events import hints_of
from tests.e2e.product import Person, Product, Tab, deltas, open_tab, redirects
from tests.support.waiting import wait_until
from tests.unit.app.guard.test_events import HANDLERS

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(900)]

JWT = re.compile(r"eyJ[\w-]{10,}\.[\w-]{10,}\.")
NONSENSE: tuple[Any, ...] = ({"$ne": None}, [[]], -1.5)
LOAD = next(name for name in HANDLERS if name.endswith("runners_state.load"))
RUNNER_LOAD = next(name for name in HANDLERS if name.endswith("runner_state.load"))
ASK = next(name for name in HANDLERS if name.endswith("runner_action_state.ask"))
SWITCH = next(name for name in HANDLERS if name.endswith("session_state.switch_organisation"))


@pytest.fixture(scope="module")
def owner(product: Product) -> Person:
    return product.person("owner")


@pytest.fixture(scope="module")
def stranger(product: Product) -> Person:
    return product.person("stranger")


def shows(answers: list[dict[str, Any]], person: Person) -> bool:
    """Whether the page of somebody's organisation is among the answers."""
    return any(values.get("org_name_rx_state_") == person.org_name for values in deltas(answers).values())


async def loaded_tab(product: Product, person: Person, token: str = "") -> Tab:
    """A tab that shows somebody's runners."""
    tab = await open_tab(product, product.cookie(person), token=token)
    await tab.send(LOAD, path="/dashboard/runners")
    await tab.until(lambda found: shows(found, person))
    return tab


async def test_no_handler_runs_for_somebody_who_is_not_signed_in(product: Product) -> None:
    tab = await open_tab(product)
    for name in sorted(HANDLERS):
        await tab.send(name, dict.fromkeys(hints_of(HANDLERS[name].handler.fn), "x"))
    answers = await tab.until(lambda found: len(redirects(found)) >= len(HANDLERS))
    answers += await tab.answers(1.0)
    assert deltas(answers) == {}
    assert redirects(answers) == ["/login"] * len(HANDLERS)


async def test_loading_a_guarded_page_hands_an_anonymous_visitor_nothing(product: Product, owner: Person) -> None:
    product.runner(owner, "seen-by-nobody")
    tab = await open_tab(product)
    await tab.send("reflex___state____state.hydrate", path="/dashboard/runners")
    await tab.send(
        "reflex___state____state.reflex___state____on_load_internal_state.on_load_internal", path="/dashboard/runners"
    )
    answers = await tab.until(redirects)
    answers += await tab.answers(1.0)
    assert not any("seen-by-nobody" in frame or owner.org_name in frame for frame in tab.frames)
    assert any(path.startswith("/login") for path in redirects(answers))


async def test_nonsense_is_refused_and_the_tab_continues_to_work(product: Product, owner: Person) -> None:
    tab = await open_tab(product, product.cookie(owner))
    for name in sorted(HANDLERS):
        hints = hints_of(HANDLERS[name].handler.fn)
        for nonsense in NONSENSE:
            if hints:
                await tab.send(name, dict.fromkeys(hints, nonsense), "/dashboard/runners")
        await tab.send(name, {"nobody_has_this": 1}, "/dashboard/runners")
    answers = await tab.answers(1.0)
    await tab.send(LOAD, path="/dashboard/runners")
    answers += await tab.until(lambda found: shows(found, owner))
    answers += await tab.answers(1.0)
    assert not redirects(answers)


async def test_another_organisation_is_out_of_reach(product: Product, owner: Person, stranger: Person) -> None:
    runner = product.runner(owner, "not-yours")
    tab = await loaded_tab(product, stranger)
    await tab.send(SWITCH, {"org_id": owner.org_id}, "/dashboard/runners")
    await tab.send(ASK, {"kind": "remove", "worker_id": runner["id"]}, "/dashboard/runners")
    await tab.send(RUNNER_LOAD, path=f"/dashboard/runners/{runner['id']}")
    await tab.answers(2.0)
    assert not any("not-yours" in frame or owner.org_name in frame for frame in tab.frames)
    assert product.sql("select removed_at, is_draining from workers where id = %s", runner["id"]) == [(None, False)]


async def test_no_frame_and_no_file_carries_a_token(product: Product, owner: Person) -> None:
    cookie = product.cookie(owner)
    tab = await open_tab(product, cookie)
    await tab.send("reflex___state____state.hydrate", path="/dashboard/runners")
    await tab.send(LOAD, path="/dashboard/runners")
    await tab.until(lambda found: shows(found, owner))
    files = [product.page("/login")]
    files += [product.page(path) for path in set(re.findall(r"/assets/[\w.-]+\.js", files[0]))]
    assert len(files) > 3
    for text in [*tab.frames, *files]:
        assert not JWT.search(text)
        assert "sb_secret_" not in text
        assert product.stack.publishable_key not in text
        assert cookie.removeprefix("runyard_sid=") not in text


async def test_a_foreign_page_cannot_open_the_websocket(product: Product) -> None:
    with pytest.raises(InvalidStatus):
        await open_tab(product, origin="https://evil.example")
    log = product.stack.settings.log_folder / "dashboard.log"
    wait_until(lambda: "RUNYARD_DASHBOARD_URL=https://evil.example" in log.read_text())


def test_a_foreign_page_cannot_sign_anybody_in_or_out(product: Product, owner: Person) -> None:
    body = {"email": owner.email, "password": owner.password}
    for headers in ({"Origin": "https://evil.example"}, {}):
        for path in ("login", "logout", "accept"):
            answer = httpx.post(f"{product.url}/auth/{path}", json=body, headers=headers, timeout=60)
            assert answer.status_code == 403
            assert "set-cookie" not in answer.headers
    form = httpx.post(f"{product.url}/auth/login", data=body, headers={"Origin": product.url}, timeout=60)
    assert form.status_code == 400


def test_a_wrong_password_and_an_unknown_address_look_the_same(product: Product, owner: Person) -> None:
    answers = [
        httpx.post(
            f"{product.url}/auth/login",
            json={"email": email, "password": "wrong"},
            headers={"Origin": product.url},
            timeout=60,
        )
        for email in (owner.email, f"{uuid.uuid4()}@example.com")
    ]
    assert answers[0].status_code == answers[1].status_code == 400
    assert answers[0].json() == answers[1].json()


def test_the_cookie_is_out_of_reach_of_scripts(product: Product, owner: Person) -> None:
    body = {"email": owner.email, "password": owner.password}
    answer = httpx.post(f"{product.url}/auth/login", json=body, headers={"Origin": product.url}, timeout=60)
    attributes = answer.headers["set-cookie"].lower()
    assert "httponly" in attributes
    assert "samesite=lax" in attributes


async def test_signing_out_ends_every_tab_of_the_session(product: Product, owner: Person) -> None:
    cookie = product.cookie(owner)
    tab = await open_tab(product, cookie)
    await tab.send(LOAD, path="/dashboard/runners")
    await tab.until(lambda found: shows(found, owner))
    product.sign_out(cookie)
    await tab.send(LOAD, path="/dashboard/runners")
    answers = await tab.until(redirects)
    assert any(path.startswith("/login") for path in redirects(answers))


async def test_a_stolen_tab_token_shows_nothing_without_the_cookie(product: Product, owner: Person) -> None:
    product.runner(owner, "behind-the-cookie")
    token = str(uuid.uuid4())
    tab = await loaded_tab(product, owner, token=token)
    await tab.until(lambda _: any("behind-the-cookie" in frame for frame in tab.frames))
    await tab.socket.close()
    thief = await open_tab(product, token=token)
    await thief.send("reflex___state____state.hydrate", path="/dashboard/runners")
    product.runner(owner, "made-while-the-thief-listens")
    await thief.answers(2.0)
    secrets = ("behind-the-cookie", "made-while-the-thief-listens", owner.email)
    assert not any(secret in frame for frame in thief.frames for secret in secrets)


async def test_a_thief_who_only_listens_receives_nothing(product: Product, owner: Person) -> None:
    token = str(uuid.uuid4())
    tab = await loaded_tab(product, owner, token=token)
    await tab.socket.close()
    thief = await open_tab(product, token=token)
    product.runner(owner, "made-while-the-thief-listens-only")
    await thief.answers(2.0)
    assert not any("made-while-the-thief" in frame or owner.email in frame for frame in thief.frames)


def test_uploads_are_refused(product: Product) -> None:
    answer = httpx.post(f"{product.url}/_upload", files={"files": b"x" * 1024}, timeout=60)
    assert answer.status_code in (404, 405)


def test_every_answer_forbids_frames_and_foreign_sources(product: Product) -> None:
    for path in ("/login/", "/healthz", "/runyard.js"):
        headers = httpx.get(f"{product.url}{path}", timeout=60).headers
        assert "frame-ancestors 'none'" in headers["content-security-policy"]
        assert "default-src 'self'" in headers["content-security-policy"]
        assert headers["x-content-type-options"] == "nosniff"
