"""Runners from rows alone: what the pages about runners show, without a browser or a database."""
