"""What the settings' pages show, from rows alone."""
