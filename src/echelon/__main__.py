"""`python -m echelon` is the `echelon` command."""

from .cli import main

main()
