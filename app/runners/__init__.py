"""Runners: the fleet, one runner, and adding one."""
