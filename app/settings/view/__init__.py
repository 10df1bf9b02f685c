"""The content of the settings' pages, from rows alone."""
