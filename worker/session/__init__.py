"""Who this process is to the server, and for how long."""
