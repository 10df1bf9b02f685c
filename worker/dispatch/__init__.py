"""Starting a job's executor elsewhere: in Docker, Kubernetes or ECS."""

from worker.dispatch.base import Dispatcher, Execution
from worker.dispatch.choose import dispatcher_for
from worker.dispatch.executor_order import Order

__all__ = ["Dispatcher", "Execution", "Order", "dispatcher_for"]
