"""Settings of an organisation."""
