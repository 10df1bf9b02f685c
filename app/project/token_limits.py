"""The limits of a personal token: its role, in words."""

EVERYTHING = "everything"
LIMITS = {
    EVERYTHING: "Everything that I may do",
    "viewer": "Read",
    "planner": "Read and plan",
    "approver": "Read and approve",
    "operator": "Operate",
    "admin": "Administer",
}
