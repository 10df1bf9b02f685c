"""Modules as files."""
