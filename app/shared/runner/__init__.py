"""A runner wherever it is shown: versions, commands, actions, and the release notes."""
