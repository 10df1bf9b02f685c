"""The frame of every page: the session, menu, top bar, palette, release notes and the connection mark."""
