"""Parts of the job's page."""
