"""What the figures page holds."""
