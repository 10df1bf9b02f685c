"""Parts of the modules page."""
