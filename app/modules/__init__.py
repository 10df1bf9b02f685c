"""What the page knows about groups and modules, computed from rows and forms alone."""
