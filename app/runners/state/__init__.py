"""The states of the runners' pages."""
