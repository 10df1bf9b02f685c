"""The parts of the modules' page."""
