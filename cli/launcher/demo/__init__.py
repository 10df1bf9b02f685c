"""The demo that `make up` shows: an organisation, a person who can sign in, and runners at work."""

from cli.launcher.demo.prepare import Demo, prepare_demo

__all__ = ["Demo", "prepare_demo"]
