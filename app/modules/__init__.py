"""Modules and groups: the tree and what is chosen in it."""
