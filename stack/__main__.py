"""`python -m stack`."""

from stack.cli import main

main()
