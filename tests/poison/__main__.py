"""`make fuzz`: objects of the corpus with random pieces exchanged, and how soon a GET beside them answers."""

from __future__ import annotations

import copy
import os
import random
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import Any

from .corpus import MERGE, STRATEGIC, collection, objects
from .plane import Plane

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


def main() -> int:
    seconds, seed = float(os.environ.get("SECONDS_LONG", "60")), int(os.environ.get("SEED", "1"))
    rng, codes, known = random.Random(seed), Counter[int](), objects()[:-9]
    with tempfile.TemporaryDirectory() as directory:
        plane = Plane(Path(directory))
        plane.start()
        connection = plane.connect(60)
        with plane.watched() as latencies:
            end = time.monotonic() + seconds
            while time.monotonic() < end:
                obj = rng.choice(known).obj
                path, body = collection(obj), _mutated(rng, obj)
                codes[connection("POST", path, body).code] += 1
                name = f"{path}/{obj['metadata']['name']}"
                codes[connection("PATCH", name, body, rng.choice((MERGE, STRATEGIC))).code] += 1
                if rng.random() < 0.5:
                    codes[connection("DELETE", f"{name}?gracePeriodSeconds=0").code] += 1
        connection.close()
        failures = plane.failures()
        plane.kill()
    print(f"seed {seed}: {sum(codes.values())} requests, answers {dict(sorted(codes.items()))}")
    shares = f"p50 {latencies.share(0.5):.3f} s, p99 {latencies.share(0.99):.3f} s"
    print(f"GET beside them: {shares}, most {latencies.worst:.3f} s")
    print("\n".join(failures[:20]))
    return 1 if failures or any(code >= 500 for code in codes) else 0


if __name__ == "__main__":
    raise SystemExit(main())
