"""The steps that jobs are made of, and which job has which."""
