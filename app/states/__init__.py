"""What each browser tab knows: thin states over the process's services."""
