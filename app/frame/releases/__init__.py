"""The runner's published versions: their notes and files."""
