"""Starting a job's executor elsewhere: in Docker, Kubernetes or ECS."""
