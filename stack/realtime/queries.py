"""The server's SQL, by name."""

from importlib.resources import files


def load_queries(text: str) -> dict[str, bytes]:
    """Split a file at its `-- name:` lines."""
    parts = text.split("-- name: ")[1:]
    return {name.strip(): body.encode() for name, _, body in (part.partition("\n") for part in parts)}


QUERIES = load_queries(files("stack.realtime").joinpath("sql", "queries.sql").read_text())
