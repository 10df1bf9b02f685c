"""A backup of the whole installation in one encrypted file, and the way back."""
