"""The runner's settings: one model, four layers, every mistake named with its place."""
