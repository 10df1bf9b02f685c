"""What is written about runners for people, and shared runners from a file."""
