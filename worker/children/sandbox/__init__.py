"""The keeper of one child, and the sandboxes that it builds."""
