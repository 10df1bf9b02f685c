"""The parts of the figures page."""
