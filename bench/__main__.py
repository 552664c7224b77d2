"""`make bench`: every benchmark, one table each."""

from __future__ import annotations

from .bind import main

main()
