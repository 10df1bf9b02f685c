"""One attempt of one job: its lease, its control, its steps, its report."""
