"""The page state of the figures."""
