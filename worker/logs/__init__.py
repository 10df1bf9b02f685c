"""A job's log: decode, redact, spool to disk, ship."""
