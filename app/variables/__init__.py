"""Variables of modules, groups and the organisation: their page, and the panel on a module's and a group's page."""
