"""Run the soak: all seeds with figures, or one with its story (SEED=n)."""

from __future__ import annotations

import os
import sys
import time

from .life import live

SEEDS = 100
EVENTS = 105


def main() -> int:
    only = os.environ.get("SEED")
    seeds = [int(only)] if only else range(int(os.environ.get("FIRST", "0")), int(os.environ.get("SEEDS", SEEDS)))
    events = int(os.environ.get("EVENTS", EVENTS))
    begin, failed = time.monotonic(), 0
    total = {"events": 0, "changes": 0, "bindings": 0, "preemptions": 0}
    hours = 0.0
    for seed in seeds:
        story = live(seed, events, told=bool(only))
        if only:
            print("\n".join(story.lines))
        for name in total:
            total[name] += getattr(story, name)
        hours += story.virtual_seconds / 3600
        if story.failure:
            failed += 1
            print(
                f"seed {seed}, event {story.events}: {story.failure}\n  SEED={seed} make soak tells its story",
                flush=True,
            )
    figures = ", ".join(f"{count:,} {name}" for name, count in total.items())
    seconds = time.monotonic() - begin
    print(f"{len(seeds)} seeds, {failed} failed: {figures}, {hours:,.0f} virtual hours in {seconds:.0f} s")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
