"""The audit log on its way out of the house."""
