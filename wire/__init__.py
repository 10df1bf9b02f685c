"""What dashboard, runner and command line must agree on without asking the database; every wheel ships it."""
