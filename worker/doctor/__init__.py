"""`runyard-worker doctor`: what stands between this machine and its first job, each with a remedy."""

from worker.doctor.check import Check, Verdict
from worker.doctor.examine import examine, show

__all__ = ["Check", "Verdict", "examine", "show"]
