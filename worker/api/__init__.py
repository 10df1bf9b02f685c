"""The only part of the runner that talks to the server."""
