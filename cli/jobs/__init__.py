"""Following jobs as the engine would show them."""
