"""What the modules' page shows, from rows alone."""
