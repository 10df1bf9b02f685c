"""Access: who may do what at a path, for the pages of groups and modules."""
