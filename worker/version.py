"""The version of the runner: what it reports, what the wheel and the image carry."""

__version__ = "0.1.0"
