"""The parts of the triggers' pages."""
