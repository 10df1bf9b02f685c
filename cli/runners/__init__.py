"""Texts about runners for people, and shared runners from a file."""
