"""Starting a job's executor elsewhere: in Docker, Kubernetes or ECS."""

from worker.dispatch.base import Dispatcher, Execution, Order
from worker.dispatch.choose import dispatcher_for

__all__ = ["Dispatcher", "Execution", "Order", "dispatcher_for"]
