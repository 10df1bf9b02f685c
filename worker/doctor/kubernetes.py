"""The kubernetes dispatcher's place: an API that answers, every right that a job takes, and a job that it would accept."""

from kubernetes_asyncio.client import ApiClient, AuthorizationV1Api, BatchV1Api, VersionApi
from kubernetes_asyncio.config import ConfigException

from worker.dispatch.base import Order
from worker.dispatch.kubernetes import AWAY, RIGHTS, KubernetesDispatcher, unfit, words_of
from worker.dispatch.manifests import job_manifest
from worker.doctor.check import Check, fail, ok, warn
from worker.settings.model import Settings


async def check_kubernetes(settings: Settings) -> list[Check]:
    """Ask for the version, for each right by a SelfSubjectAccessReview, and for a job as a dry run; nothing is made."""
    dispatcher = KubernetesDispatcher(settings)
    namespace = dispatcher.data.namespace
    try:
        try:
            api = await dispatcher.connection()
            version = (await VersionApi(api).get_code()).git_version
        except (*AWAY, ConfigException) as error:
            found = unfit(error, namespace)
            return [fail("Kubernetes", words_of(error), found.hint)]
        reached = ok("Kubernetes", f"{version} answers at {api.configuration.host}")
        return [reached, await _rights(api, namespace), await _dry_run(api, settings)]
    finally:
        await dispatcher.close()


async def _rights(api: ApiClient, namespace: str) -> Check:
    wanted = [(group, resource, verb) for (group, resource), verbs in RIGHTS.items() for verb in verbs]
    try:
        missing = [
            f"{verb} {right}" for group, right, verb in wanted if not await _may(api, namespace, group, right, verb)
        ]
    except AWAY as error:
        return warn(
            "Rights", f"the cluster does not say ({words_of(error)})", "See that the runner may use the cluster."
        )
    if missing:
        remedy = "Give them to the runner's account by a role in that namespace; the chart's has exactly these."
        return fail("Rights", f"missing in {namespace}: {', '.join(missing)}", remedy)
    return ok("Rights", f"all {len(wanted)} that a job takes in {namespace}")


async def _may(api: ApiClient, namespace: str, group: str, resource: str, verb: str) -> bool:
    asked = {"namespace": namespace, "group": group, "resource": resource, "verb": verb}
    review = {
        "apiVersion": "authorization.k8s.io/v1",
        "kind": "SelfSubjectAccessReview",
        "spec": {"resourceAttributes": asked},
    }
    answer = await AuthorizationV1Api(api).create_self_subject_access_review(review)  # type: ignore[arg-type]
    return bool(answer.status.allowed)


async def _dry_run(api: ApiClient, settings: Settings) -> Check:
    """The cluster checks the job as it would one that it starts: settings, policies, namespace."""
    order = Order(0, 0, str(settings.runner.id), settings.server.url, "", "")
    namespace = settings.dispatcher.data.namespace
    manifest = job_manifest(order, settings)
    manifest["metadata"]["name"] = "runyard-doctor"
    try:
        await BatchV1Api(api).create_namespaced_job(namespace, manifest, dry_run="All")  # type: ignore[arg-type]
    except AWAY as error:
        return fail("Job", words_of(error), unfit(error, namespace).hint)
    return ok("Job", f"the cluster would accept one with {settings.dispatcher.data.image}")
