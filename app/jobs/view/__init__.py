"""The content of the jobs' pages, built from rows alone."""
