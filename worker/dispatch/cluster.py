"""Finding the Kubernetes cluster, and signing in to it."""

import os

from kubernetes_asyncio import config as kube
from kubernetes_asyncio.client import Configuration

from worker.clock import Clock
from worker.settings.dispatcher import AuthType, DispatcherData


async def configuration_for(data: DispatcherData, clock: Clock) -> Configuration:
    """Find the cluster: by IAM, from inside a pod, or from a kubeconfig, as the settings say."""
    if data.auth_type is AuthType.EKS_IAM:
        from worker.dispatch.eks import EksAccess

        return await EksAccess(str(data.region), str(data.eks_cluster), clock).configuration()
    configuration = Configuration()
    if data.auth_type is not AuthType.KUBECONFIG:
        try:
            kube.load_incluster_config(client_configuration=configuration)  # type: ignore[no-untyped-call]
        except kube.ConfigException:
            if data.auth_type is AuthType.IN_CLUSTER:
                raise
        else:
            return configuration
    # The library reads KUBECONFIG when it is imported; we mean the variable as it is now.
    await kube.load_kube_config(os.environ.get("KUBECONFIG"), client_configuration=configuration)
    return configuration
