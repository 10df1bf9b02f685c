"""What the steps of a job share; whoever runs them is in `worker.jobs`."""
