"""The objects that the steps of a job share; `worker.running` runs the steps."""
