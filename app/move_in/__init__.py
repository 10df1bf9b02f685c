"""Moving in: what exists comes here, from a repository or an archive, with its state and a first plan as proof."""
