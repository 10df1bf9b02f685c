"""The means of every test: a real PostgreSQL, a real stack, free ports, patient waiting."""
