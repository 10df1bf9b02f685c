"""Sessions on the account's page: browsers in words, this one first, and no question about a session that is not listed."""

import pytest

from app.project.models import BrowserSession, KeptSession
from app.settings.state.sessions import SessionsState
from app.settings.view.sessions import UNKNOWN, build_views, device_of

LINUX = "Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 (KHTML, like Gecko)"
PHONE = "Mozilla/5.0 (iPhone; CPU iPhone OS 18_5 like Mac OS X) AppleWebKit/605.1.15 (KHTML, like Gecko)"


@pytest.mark.parametrize(
    ("user_agent", "words"),
    [
        ("Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0", "Firefox on Linux"),
        (f"{LINUX} Chrome/140.0.0.0 Safari/537.36", "Chrome on Linux"),
        (f"{LINUX} HeadlessChrome/140.0.0.0 Safari/537.36", "Chrome on Linux"),
        (
            "Mozilla/5.0 (Windows NT 10.0; Win64; x64) AppleWebKit/537.36 Chrome/140.0.0.0 Safari/537.36 Edg/140.0.0.0",
            "Edge on Windows",
        ),
        (
            "Mozilla/5.0 (Macintosh; Intel Mac OS X 10_15_7) AppleWebKit/605.1.15 Version/18.5 Safari/605.1.15",
            "Safari on macOS",
        ),
        (f"{PHONE} Version/18.5 Mobile/15E148 Safari/604.1", "Safari on iPhone"),
        (f"{PHONE} CriOS/140.0.0.0 Mobile/15E148 Safari/604.1", "Chrome on iPhone"),
        (
            "Mozilla/5.0 (Linux; Android 15; K) AppleWebKit/537.36 Chrome/140.0.0.0 Mobile Safari/537.36",
            "Chrome on Android",
        ),
        ("curl/8.5.0", UNKNOWN),
        ("", UNKNOWN),
        ("<script>alert(1)</script>\x00", UNKNOWN),
    ],
)
def test_a_browser_is_named_in_words(user_agent: str, words: str) -> None:
    assert device_of(user_agent) == words


def kept(key: str, last_used_at: float) -> KeptSession:
    return KeptSession(
        key, BrowserSession(f"sid-{key}", "u", "ops@example.com", "access", "refresh", 9.0e9, 0.0), last_used_at
    )


def test_the_current_session_is_first_and_the_others_follow_by_last_use() -> None:
    views = build_views([kept("old", 10), kept("this", 5), kept("new", 20)], "this")
    assert [(view["key"], view["is_this"]) for view in views] == [("this", True), ("new", False), ("old", False)]
    assert views[0]["last_used_at"] == "1970-01-01T00:00:05+00:00"


def test_the_page_has_neither_the_id_nor_a_token() -> None:
    shown = str(build_views([kept("this", 5)], "this"))
    assert not any(word in shown for word in ("sid-", "access", "refresh"))


def test_only_another_listed_session_can_be_chosen_to_be_ended() -> None:
    state = SessionsState(_reflex_internal_init=True)  # type: ignore[call-arg]
    state.rows = build_views([kept("this", 5), kept("other", 5)], "this")
    for key, asked in (("other", "other"), ("this", ""), ("other", "other"), ("unknown", ""), ("", "")):
        state.ask(key)
        assert state.asking_key == asked
    state.ask_all()
    assert state.is_asking_all
    state.ask("")
    assert not state.is_asking_all
