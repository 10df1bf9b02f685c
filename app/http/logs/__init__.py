"""A job's log over HTTP."""
