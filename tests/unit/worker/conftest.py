"""What the runner's unit tests share."""

from hypothesis import settings

# A busy machine is no finding: an example may take as long as it takes.
settings.register_profile("runner", deadline=None)
settings.load_profile("runner")
