"""What the official Python client does with the pods of `test_process_streams`; prints what it saw, as JSON.

A program of its own: the client leaves its sockets to the end of the process.
"""

from __future__ import annotations

import json
import sys
import time
from typing import Any

from kubernetes import client, config
from kubernetes.client.exceptions import ApiException
from kubernetes.stream import portforward, stream


def seen(core: client.CoreV1Api) -> dict[str, Any]:
    found: dict[str, Any] = {
        "log": core.read_namespaced_pod_log("talker", "default"),
        "tail": core.read_namespaced_pod_log("talker", "default", tail_lines=2),
    }
    try:
        core.read_namespaced_pod_log("talker", "default", tail_lines=-1)
    except ApiException as error:
        found["refused"] = json.loads(error.body)["message"]
    session = stream(
        core.connect_get_namespaced_pod_exec,
        "pair",
        "default",
        container="web",
        command=["sh", "-c", "read x; echo got $x; exit 3"],
        stdin=True,
        stdout=True,
        stderr=True,
        tty=False,
        _preload_content=False,
    )
    session.write_stdin("abc\n")
    session.run_forever(timeout=20)
    found["exec"] = [session.read_stdout(), session.returncode]
    forwarded = portforward(core.connect_get_namespaced_pod_portforward, "pair", "default", ports="8080,9")
    socket = forwarded.socket(8080)
    socket.setblocking(True)
    socket.sendall(b"GET / HTTP/1.0\r\n\r\n")
    found["forwarded"] = socket.recv(15).decode()
    deadline = time.monotonic() + 20
    while not forwarded.error(9) and time.monotonic() < deadline:
        time.sleep(0.05)
    found["not forwarded"] = forwarded.error(9)
    return found


if __name__ == "__main__":
    print(json.dumps(seen(client.CoreV1Api(config.new_client_from_config(sys.argv[1])))))
