"""Testing the identities of a module: each token is exchanged, and the job's log and result have the answers."""

from worker.attempt.workspace import Workspace
from worker.errors import JobFailed, Retryable
from worker.exchange import exchange
from worker.steps.identity_variables import IdentityFiles


async def exchange_tokens(space: Workspace) -> None:
    """Try every identity before the job fails with the first refusal: a person repairs all of them at once."""
    server = space.context.server
    if not (await server.identities(space.ref)).identities:
        raise JobFailed("The module has no identity.", code="no_identity", hint="runyard identities attach adds one.")
    issued = await server.identity_tokens(space.ref)
    answers, problems = space.result.setdefault("identities", {}), []
    for each in issued.tokens:
        space.log.hide([each.token])
        files = IdentityFiles(each, space.root, issued.phase, f"runyard-{space.job.id}-{space.job.attempt}")
        try:
            answers[each.name] = await exchange(each.kind, files.setting, each.token, files.session_name)
        except Retryable as error:
            answers[each.name] = error.message
            problems.append(error.message)
        space.say(f"{each.name}: {answers[each.name]}")
    if problems:
        raise JobFailed(
            problems[0],
            code="identity_refused",
            hint="Compare the trust policy with the token: runyard identities test.",
        )
