"""What is drawn of variables."""
