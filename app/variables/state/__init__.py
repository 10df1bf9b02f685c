"""The page states of variables."""
