"""The version of the command line, which is the version of the whole."""

__version__ = "0.1.0"
