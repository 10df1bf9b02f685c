"""The parts of the runners' pages."""
