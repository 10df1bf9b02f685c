"""The states of schedules, sets, notifications and the update policy."""
