"""What the settings say about an organisation: members, identities, accounts; computed from rows and forms alone."""
