"""Helpers of the Realtime tests: a server alone on a database of its own, and a client that speaks the bare protocol."""
