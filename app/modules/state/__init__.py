"""The states of the modules' page."""
