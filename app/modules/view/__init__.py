"""The content of the modules' page, built from rows alone."""
