"""How a runner replaces its own program: fetched and checked by a job, tried by a child, then taken over."""
