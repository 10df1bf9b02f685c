"""The content of the runners' pages, built from rows alone."""
