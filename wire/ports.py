"""Ports that more than one part has to know."""

DASHBOARD = 3000
