"""The embedded stack with the dashboard and the demo, started in order and kept running."""
