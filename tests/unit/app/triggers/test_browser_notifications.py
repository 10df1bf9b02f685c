"""The browser's own notifications: the button and the message follow the browser's answer."""

import pytest

from app.triggers.state.notifications import BROWSER_WORDS, NotificationsState


@pytest.mark.parametrize(("answer", "is_on"), [("on", True), ("off", False), ("denied", False), ("unsupported", False)])
def test_the_message_and_the_button_follow_the_browsers_answer(answer: str, is_on: bool) -> None:
    state = NotificationsState(_reflex_internal_init=True)
    state.is_browser_on = not is_on
    said = state.browser_turned(answer)
    assert BROWSER_WORDS[answer][0] in str(said)
    assert state.is_browser_on is is_on
    state.browser_is("off")
    assert not state.is_browser_on
