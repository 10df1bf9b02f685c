"""What an administrator does through the API of any project: runners of an organisation, shared runners of an installation."""
