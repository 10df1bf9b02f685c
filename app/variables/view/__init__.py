"""What the pages of variables show, without Reflex."""
