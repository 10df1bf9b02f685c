"""One module for each word after `runyard`."""
