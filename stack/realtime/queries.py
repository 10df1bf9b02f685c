"""The server's SQL, by name."""

from importlib.resources import files

from stack.sqlsplit import load_queries

QUERIES = load_queries(files("stack.realtime").joinpath("sql", "queries.sql").read_text())
