"""Parts of the settings."""
