"""Break something: real faults on the demo's own runner and database, asked for on the dashboard's page, and the ledger."""
