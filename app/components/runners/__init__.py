"""Parts of the pages about runners."""
