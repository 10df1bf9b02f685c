"""Engine binaries for the embedded stack and the tests: found, fetched or built, never waited for."""
