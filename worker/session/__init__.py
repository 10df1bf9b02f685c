"""The identity of this process to the server, and its lifetime."""
