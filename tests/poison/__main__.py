"""`make fuzz`: odd input against a running plane, for as long as one likes.

    largest   every largest allowed object is written in every way: how soon a GET beside it answers, what held the loop
    mutated   objects of the corpus with random pieces exchanged
    grammar   random requests along the OpenAPI documents of the plane
    direct    the same without sockets and controllers: many more of them
    decoders  bent bytes into decoders, patches and parsers

SECONDS_LONG and REQUESTS bound the last four, SEED makes them the same again, PARTS chooses.
"""

from __future__ import annotations

import copy
import os
import random
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import Any

from . import decoders, direct, grammar_run
from .corpus import MERGE, STRATEGIC, collection, objects
from .largest import largest, writes
from .plane import Latencies, Plane

#: The largest step of the event loop, in seconds of CPU time: the clock also counts what others on this machine take.
MOST_CPU = 0.05
_VALUES: list[Any] = [None, "", "x", "²", 0, -1, 2**31, 2**63, 1e300, True, [], {}, [{}], {"a": {}}, "9" * 5_000]


def _mutated(rng: random.Random, tree: Any) -> Any:
    """The tree with one value somewhere in it exchanged."""
    made = copy.deepcopy(tree)
    holder, key = made, "spec"
    while isinstance(holder, (dict, list)) and holder:
        key = rng.choice(list(holder) if isinstance(holder, dict) else range(len(holder)))
        if rng.random() < 0.4 or not isinstance(holder[key], (dict, list)) or not holder[key]:
            break
        holder = holder[key]
    if isinstance(holder, (dict, list)) and holder:
        holder[key] = rng.choice(_VALUES)
    return made


def _largest(plane: Plane) -> bool:
    """Every largest object; a table of the slowest GETs beside it."""
    connection, everything, bad = plane.connect(300), Latencies(), 0
    print(f"{'object':28} {'writes':>7} {'GET p50':>8} {'worst':>7}  (seconds)")
    for odd in largest():
        begin = time.monotonic()
        with plane.watched() as latencies:
            codes = [call() for _, call in writes(connection, odd)]
            took = time.monotonic() - begin
            time.sleep(0.3)
        everything.seconds += latencies.seconds
        bad += any(code >= 500 for code in codes) + latencies.failed
        print(f"{odd.id:28} {took:7.2f} {latencies.share(0.5):8.3f} {latencies.worst:7.3f}", flush=True)
    connection.close()
    _tell(everything)
    held = sorted((one for one in plane.held() if one.loop_cpu > MOST_CPU), key=lambda one: -one.loop_cpu)
    for one in held[:20]:
        print(f"held for {one.loop_cpu:.3f} s of CPU time at {one.places}")
    return not bad and not held


def _tell(latencies: Latencies) -> None:
    shares = f"p50 {latencies.share(0.5):.3f} s, p99 {latencies.share(0.99):.3f} s"
    print(f"GET beside them: {shares}, most {latencies.worst:.3f} s")


def _mutations(plane: Plane, seed: int, seconds: float, most: int) -> bool:
    rng, codes, known = random.Random(seed), Counter[int](), objects()[:-9]
    connection, end = plane.connect(60), time.monotonic() + seconds
    with plane.watched() as latencies:
        while time.monotonic() < end and codes.total() < most:
            obj = rng.choice(known).obj
            path, body = collection(obj), _mutated(rng, obj)
            codes[connection("POST", path, body).code] += 1
            name = f"{path}/{obj['metadata']['name']}"
            codes[connection("PATCH", name, body, rng.choice((MERGE, STRATEGIC))).code] += 1
            if rng.random() < 0.5:
                codes[connection("DELETE", f"{name}?gracePeriodSeconds=0").code] += 1
    connection.close()
    print(f"seed {seed}: {codes.total()} requests, answers {dict(sorted(codes.items()))}")
    _tell(latencies)
    return all(code < 500 for code in codes)


def _grammar(plane: Plane, seed: int, seconds: float, most: int, directory: Path) -> bool:
    threads = int(os.environ.get("THREADS", "2"))
    with plane.watched() as latencies:
        result = grammar_run.run(plane, seed, seconds, most, threads, directory)
    print(f"seed {seed}: {result.requests} requests, answers {dict(sorted(result.codes.items()))}")
    _tell(latencies)
    print(f"{len(result.failures)} failures")
    return not result.failures


def _direct(seed: int, seconds: float, most: int) -> bool:
    with tempfile.TemporaryDirectory() as directory:
        result = direct.run(Path(directory), seed, seconds, most)
    print(f"seed {seed}: {result.requests} requests, answers {dict(sorted(result.codes.items()))}")
    print(f"{len(result.failures)} failures")
    return not result.failures


def _decoders(seed: int, seconds: float, most: int) -> bool:
    count, failures = decoders.run(seed, seconds, most)
    print(f"seed {seed}: {count} inputs, {len(failures)} failures")
    return not failures


def main() -> int:
    seconds, seed = float(os.environ.get("SECONDS_LONG", "60")), int(os.environ.get("SEED", "1"))
    most = int(os.environ.get("REQUESTS", "1000000000"))
    parts = os.environ.get("PARTS", "largest,mutated,grammar,direct,decoders").split(",")
    good = True
    for part in parts:
        print(f"== {part}", flush=True)
        if part in ("direct", "decoders"):
            good &= (_direct if part == "direct" else _decoders)(seed, seconds, most)
            continue
        with tempfile.TemporaryDirectory() as directory:
            plane = Plane(Path(directory) / "plane", watchdog=True)
            plane.start()
            try:
                if part == "largest":
                    good &= _largest(plane)
                elif part == "mutated":
                    good &= _mutations(plane, seed, seconds, most)
                else:
                    good &= _grammar(plane, seed, seconds, most, Path(directory))
                failures = plane.failures()
            finally:
                plane.kill()
        print("\n".join(failures[:20]) or "no failure in the log")
        good &= not failures
    return 0 if good else 1


if __name__ == "__main__":
    raise SystemExit(main())
