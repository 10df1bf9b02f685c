"""The runner's loops, one file each."""
