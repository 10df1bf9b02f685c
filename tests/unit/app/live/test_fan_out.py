"""The order in which tabs are shown a change: rows before heartbeats, every tab once, a burst together."""

from app.live.fan_out import Waiting, merge
from app.project.store import Changed

PAUSE = 0.1


def rows(*ids: str) -> Changed:
    return Changed({"workers": frozenset(ids)})


HEARTBEAT = Changed({"overview": frozenset()})


def waiting_for(*tabs: str) -> Waiting:
    waiting = Waiting(PAUSE)
    for tab in tabs:
        waiting.add([tab], rows("a"))
    return waiting


def test_everybody_is_shown_a_change_once_in_the_order_they_came() -> None:
    waiting = waiting_for("first", "second")
    assert waiting.take(10.0) == ("first", rows("a"))
    assert waiting.take(10.0) == ("second", rows("a"))
    assert waiting.take(10.0) is None
    assert not waiting


def test_row_changes_are_delivered_before_heartbeats() -> None:
    waiting = Waiting(PAUSE)
    waiting.add(["first"], HEARTBEAT)
    waiting.add(["second"], HEARTBEAT)
    waiting.add(["second"], rows("a"))
    assert waiting.take(10.0) == ("second", merge(HEARTBEAT, rows("a")))
    assert waiting.take(10.0) == ("first", HEARTBEAT)
    assert waiting.take(10.0) is None


def test_a_burst_is_shown_a_pause_later_and_together() -> None:
    waiting = waiting_for("tab")
    waiting.take(10.0)
    waiting.add(["tab"], rows("b"))
    waiting.add(["tab"], rows("c"))
    assert waiting.take(10.05) is None
    assert abs(waiting.wait_seconds(10.05) - 0.05) < 1e-9
    assert waiting.take(10.1) == ("tab", rows("b", "c"))


def test_a_recently_updated_tab_does_not_delay_other_tabs() -> None:
    waiting = waiting_for("busy")
    waiting.take(10.0)
    waiting.add(["busy"], rows("b"))
    waiting.add(["calm"], rows("b"))
    assert waiting.take(10.01) == ("calm", rows("b"))


def test_a_heartbeat_does_not_put_off_the_next_change() -> None:
    waiting = Waiting(PAUSE)
    waiting.add(["tab"], HEARTBEAT)
    waiting.take(10.0)
    waiting.add(["tab"], rows("a"))
    assert waiting.take(10.01) == ("tab", rows("a"))


def test_closed_tabs_are_forgotten() -> None:
    waiting = waiting_for("gone")
    waiting.take(10.0)
    waiting.keep(["there"])
    waiting.add(["gone"], rows("a"))
    assert waiting.take(10.01) == ("gone", rows("a"))
