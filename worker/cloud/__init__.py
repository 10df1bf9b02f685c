"""Runners that Runyard deploys, wakes, updates and removes on AWS ECS Fargate."""
