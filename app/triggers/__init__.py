"""Automatic work and its notifications: schedules, sets of jobs, notifications, updates by policy."""
