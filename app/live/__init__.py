"""Pages that are shown again when something changes."""
