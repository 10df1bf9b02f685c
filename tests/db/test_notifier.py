"""The embedded stack wakes the function that sends when something is due, and only then."""

import io
import json
from pathlib import Path

import pytest

from cli.launcher.journal import Journal
from cli.launcher.notifier import Notifier
from tests.db.test_notifications import rule
from tests.db.world import World
from tests.support.receiver import run_receiver


@pytest.fixture
def journal(tmp_path: Path) -> Journal:
    return Journal(tmp_path, io.StringIO())


def test_the_function_is_woken_while_something_is_due(fresh_world: World, journal: Journal) -> None:
    org = fresh_world.organization()
    with run_receiver() as function:
        notifier = Notifier(fresh_world.database.url, function.url, journal)
        notifier.poll()
        assert function.received == []
        org.owner.call("test_notification_rule", p_rule=rule(org))
        notifier.poll()
        assert [(each.path, json.loads(each.body)) for each in function.received] == [("/notify", {"deliver": True})]
        function.status = 500
        notifier.poll()
        notifier.poll()
    assert journal.tail("notify").count("500") == 1, "trouble is said once"
