"""The command palette: modules, runners, jobs and actions, by what somebody types."""
