"""The fleet's events: what happened to runners and jobs, searched."""
