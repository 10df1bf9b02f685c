"""What the jobs' pages show, from rows alone."""
