"""The content of the pages of variables, without Reflex."""
