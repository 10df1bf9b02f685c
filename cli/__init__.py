"""`runyard`: starts, serves and administers Runyard, for people and for pipelines."""
