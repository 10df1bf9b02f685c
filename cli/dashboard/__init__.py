"""The dashboard alone: built when something changed, and served on one port."""
