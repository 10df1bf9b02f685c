"""Tools for a program that acts for a member: it looks and plans."""
