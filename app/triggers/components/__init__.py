"""What pages of triggers are made of."""
