"""Break something: the demo's faults and the ledger."""
