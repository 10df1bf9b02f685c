"""The parts of a job's page."""
