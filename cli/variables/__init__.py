"""Variables of modules, groups and the organisation: rows, and the files that they are read from."""
