"""Parts that several pages are made of; the look is in assets/, the words in LOOK's manner."""
