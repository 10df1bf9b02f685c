"""A job's log: its panel on the page (assets/job/), its routes, and the parser that leaves only text and colours."""
