"""What `docs/reference/admission.md` promises, as data."""

from __future__ import annotations

import re
from pathlib import Path

from .cases import Write

PAGE = Path(__file__).parents[2] / "docs" / "reference" / "admission.md"


def taken_all_the_same() -> list[str]:
    """Parts of our own messages for what the server does not refuse: the first column of that table."""
    section = PAGE.read_text().partition("\n## What the server takes all the same\n")[2].partition("\n## ")[0]
    return re.findall(r"^\| `([^`]*)` \|", section, re.MULTILINE)


def is_taken(case: Write) -> bool:
    """Whether the page says that the server takes a write which our own refuses: for all that is wrong with it."""
    known = taken_all_the_same()
    single = [one for problem in case.problems for one in re.split(r", (?=(?:spec|metadata)\.)", problem)]
    return all(any(part in one for part in known) for one in single)
