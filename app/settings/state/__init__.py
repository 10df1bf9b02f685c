"""The states of the settings' pages."""
