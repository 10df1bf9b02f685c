"""Signing in, and the first organisation."""
