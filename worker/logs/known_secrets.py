"""Every secret that this process has read, known to every log that it writes: its own, and those of running jobs."""

from weakref import WeakSet

from worker.logs.redactor import Redactor


class KnownSecrets:
    """Secrets are added before they are used; a job that began earlier masks them from then on, too."""

    def __init__(self, *secrets: str) -> None:
        self._secrets = set(secrets)
        self._redactors: WeakSet[Redactor] = WeakSet()

    def add(self, *secrets: str) -> None:
        """Mask these as well, in every log."""
        fresh = {secret for secret in secrets if secret} - self._secrets
        if fresh:
            self._secrets |= fresh
            for redactor in self._redactors:
                redactor.add(*fresh)

    def redactor(self) -> Redactor:
        """Make a redactor for one more log."""
        made = Redactor(self._secrets)
        self._redactors.add(made)
        return made
