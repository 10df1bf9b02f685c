"""The states of the jobs' pages."""
