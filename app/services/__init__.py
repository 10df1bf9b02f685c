"""Everything the dashboard knows without a browser; nothing in here imports Reflex."""
