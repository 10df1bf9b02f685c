"""A job wherever it is shown: words, rows, why it waits, and the dialog that queues one."""
