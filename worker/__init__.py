"""The runner: one asyncio process that opens a session, claims jobs and runs them."""
