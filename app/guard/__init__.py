"""Deny by default: every event is judged before its handler runs."""
