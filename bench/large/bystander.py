"""A client in a process of its own that asks for one object again and again; tells its times when its input ends.

A time is a pair: what passed, and what the main thread of the server worked meanwhile.  On a machine that has other
things to do, the second says how long the server alone let the client wait.
"""

from __future__ import annotations

import http.client
import json
import select
import ssl
import sys
import time
from pathlib import Path
from urllib.parse import urlsplit

OBJECT = "/api/v1/namespaces/default"
_PAUSE_SECONDS = 0.02


def _seconds(schedstat: Path) -> float:
    """Processor time of a thread."""
    return int(schedstat.read_text().split()[0]) / 1e9


def _main(directory: Path, url: str, server: int) -> None:
    worked = Path(f"/proc/{server}/task/{server}/schedstat")
    token = (directory / "pki" / "token").read_text().strip()
    address = urlsplit(url)
    context = ssl.create_default_context(cafile=str(directory / "pki" / "ca.crt"))
    connection = http.client.HTTPSConnection(str(address.hostname), address.port, context=context, timeout=600)
    headers = {"Authorization": f"Bearer {token}", "User-Agent": "bystander"}
    times: list[tuple[float, float]] = []
    while True:
        before = _seconds(worked)
        began = time.perf_counter()
        connection.request("GET", OBJECT, headers=headers)
        response = connection.getresponse()
        response.read()
        assert response.status == 200, response.status
        times.append((time.perf_counter() - began, _seconds(worked) - before))
        if len(times) == 1:
            # The first one opens the connection and is not counted.
            print("asking", flush=True)
        if select.select([sys.stdin], [], [], _PAUSE_SECONDS)[0]:
            print(json.dumps(times[1:]), flush=True)
            return


if __name__ == "__main__":
    _main(Path(sys.argv[1]), sys.argv[2], int(sys.argv[3]))
