"""`runyard-worker doctor`: what stands between this machine and its first job, each with a remedy."""
