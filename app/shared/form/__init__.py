"""Forms: reading what somebody typed, field by field."""
