"""What the runners' pages show, from rows alone."""
