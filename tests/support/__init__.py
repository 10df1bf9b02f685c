"""What every test may lean on: a real PostgreSQL, a real stack, free ports, patient waiting."""
