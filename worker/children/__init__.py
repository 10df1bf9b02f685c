"""Child processes: what they may see, how they are started, read and stopped."""
