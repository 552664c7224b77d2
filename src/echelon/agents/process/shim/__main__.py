"""`python -m echelon.agents.process.shim DIRECTORY`."""

import sys

from .main import main

main(sys.argv[1:])
