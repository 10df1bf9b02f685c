"""Jobs: the list and one job."""
