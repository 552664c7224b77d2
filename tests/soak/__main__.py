"""Run the soak: all seeds with figures, or one with its story (SEED=n).

SEED=n      one seed, told event by event
FIRST=n     the first of several seeds (0)
SEEDS=n     how many seeds (100)
EVENTS=n    events in each of them (120)
WORKERS=n   processes that share the work (2)
"""

from __future__ import annotations

import multiprocessing
import os
import sys
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial

from .seed_run import Story, live

SEEDS = 100
EVENTS = 120
WORKERS = 2
#: Seeds whose figures share a line.
_GROUP = 10


@dataclass
class Figures:
    """What a number of seeds came to."""

    seeds: list[int] = field(default_factory=list)
    events: int = 0
    changes: int = 0
    bindings: int = 0
    preemptions: int = 0
    releases: int = 0
    virtual_seconds: float = 0.0
    cpu_seconds: float = 0.0

    def add(self, story: Story) -> None:
        self.seeds.append(story.seed)
        self.events += story.events
        self.changes += story.changes
        self.bindings += story.bindings
        self.preemptions += story.preemptions
        self.releases += story.releases
        self.virtual_seconds += story.virtual_seconds
        self.cpu_seconds += story.cpu_seconds

    def __str__(self) -> str:
        return (
            f"{self.events:,} events, {self.changes:,} changes, {self.bindings:,} bindings, "
            f"{self.preemptions:,} preemptions, {self.releases:,} releases, "
            f"{self.virtual_seconds / 3600:.0f} virtual hours, "
            f"{self.cpu_seconds:.0f} s of CPU"
        )


def _number(environment: Mapping[str, str], name: str, default: int) -> int:
    text = environment.get(name) or str(default)
    if not text.isdigit():
        sys.exit(f"{name}={text}: must be a whole number, 0 or more")
    return int(text)


def tell(seed: int, events: int) -> int:
    """The story of one seed."""
    story = live(seed, events, told=True)
    print("\n".join(story.lines))
    total = Figures()
    total.add(story)
    print(f"seed {seed}: {total}")
    if story.failure:
        print(f"seed {seed}, event {story.events}: {story.failure}")
    return 1 if story.failure else 0


def _stories(seeds: range, events: int, workers: int) -> Iterator[Story]:
    """All stories in the order of their seeds, lived side by side; a process of its own keeps seeds apart."""
    with multiprocessing.get_context("spawn").Pool(workers) as pool:
        yield from pool.imap(partial(live, events=events), seeds)


def soak(seeds: range, events: int, workers: int) -> int:
    """All seeds; how many failed."""
    begin, failed = time.monotonic(), 0
    total, group = Figures(), Figures()
    for story in _stories(seeds, events, workers):
        total.add(story)
        group.add(story)
        if story.failure:
            failed += 1
            again = f"SEED={story.seed} EVENTS={events} make soak"
            print(f"seed {story.seed}, event {story.events}: {story.failure}\n  {again} tells its story", flush=True)
        if len(group.seeds) == _GROUP or story.seed == seeds[-1]:
            print(f"seeds {group.seeds[0]:3}-{group.seeds[-1]:<3} {group}", flush=True)
            group = Figures()
    verdict = "all held" if not failed else f"{failed} failed"
    print(f"{len(seeds)} seeds, {verdict}: {total}, {time.monotonic() - begin:.0f} s on {workers} processes")
    return failed


def main(environment: Mapping[str, str]) -> int:
    events = _number(environment, "EVENTS", EVENTS)
    if environment.get("SEED"):
        return tell(_number(environment, "SEED", 0), events)
    first = _number(environment, "FIRST", 0)
    seeds = range(first, first + _number(environment, "SEEDS", SEEDS))
    return 1 if soak(seeds, events, max(1, _number(environment, "WORKERS", WORKERS))) else 0


if __name__ == "__main__":
    if sys.argv[1:]:
        sys.exit(__doc__)
    sys.exit(main(os.environ))
