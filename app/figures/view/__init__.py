"""Charts from numbers alone."""
