"""The pace at which the rights of joined channels are checked again."""

from stack.realtime.settings import RealtimeSettings


def test_few_channels_are_checked_each_minute_and_thousands_a_few_a_second() -> None:
    settings = RealtimeSettings()
    assert settings.check_seconds(1) == settings.check_seconds(1200) == 60
    assert settings.check_seconds(5000) == 250
