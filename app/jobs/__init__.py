"""What the page says about jobs, computed from their rows alone."""
