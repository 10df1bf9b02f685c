"""Writing what a job brings along, without leaving its directory."""
