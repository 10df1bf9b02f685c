"""The components of variables."""
