"""The engine's HTTP state backend on loopback, for one job, backed by the server."""
