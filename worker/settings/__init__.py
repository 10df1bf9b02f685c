"""The runner's settings: one model, four layers, every mistake named with its place."""

from worker.settings.dispatcher import DispatcherSettings
from worker.settings.levels import LogLevelName, level_for
from worker.settings.load import forget_secrets, load_settings
from worker.settings.model import Settings
from worker.settings.sources import Problem, SettingsError

__all__ = [
    "DispatcherSettings",
    "LogLevelName",
    "Problem",
    "Settings",
    "SettingsError",
    "forget_secrets",
    "level_for",
    "load_settings",
]
