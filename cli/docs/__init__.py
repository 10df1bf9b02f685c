"""Pages of the documentation that are read off the code and the database."""
