"""Whether this runner can deploy others: only a word, since most runners need not."""

from worker.cloud.proof import prove_aws
from worker.doctor.check import Check, ok, skip


def cloud_rights() -> Check:
    """Ask AWS for our identity, as the runner does."""
    proof = prove_aws()
    if proof.arn:
        return ok("Cloud", f"AWS knows this machine as {proof.arn}: it can run jobs about cloud-hosted runners")
    return skip("Cloud", f"no jobs about cloud-hosted runners here: {proof.why}")
