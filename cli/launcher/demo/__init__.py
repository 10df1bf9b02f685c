"""The demo that `make up` shows: an organisation, a person who can sign in, and runners at work."""
