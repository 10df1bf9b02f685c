"""Rows as the pages of triggers show them."""
