"""The client: one connection, who is signed in, and what an organisation has. Knows nothing of stack, app or worker."""
