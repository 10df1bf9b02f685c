"""A runner's update of its own program: a job fetches and checks the new one, a child tries it, then it replaces the old one."""
