"""What the steps of a job share; what runs them is in `worker.running`."""
