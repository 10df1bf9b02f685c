"""The parts of the settings' pages."""
