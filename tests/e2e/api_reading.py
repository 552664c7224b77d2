"""Objects straight from the server that a kubeconfig names: for tests that wait, and ask many times.

A kubectl is a new process each time, which takes the processors away from what is waited for.
"""

from __future__ import annotations

import base64
import json
import ssl
import urllib.request
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import yaml

_PATHS = {
    "pods": "/api/v1/namespaces/default/pods",
    "events": "/api/v1/namespaces/default/events",
    "jobsets": "/apis/jobset.x-k8s.io/v1alpha2/namespaces/default/jobsets",
    "trainjobs": "/apis/trainer.kubeflow.org/v1alpha1/namespaces/default/trainjobs",
}


def read(kubeconfig: Path, plural: str, name: str = "", **query: str) -> Any:
    """An object of the namespace `default`, or a list of them."""
    config = yaml.safe_load(kubeconfig.read_text())
    cluster = config["clusters"][0]["cluster"]
    authority = base64.b64decode(cluster["certificate-authority-data"]).decode()
    path = _PATHS[plural] + (f"/{name}" if name else "") + (f"?{urlencode(query)}" if query else "")
    request = urllib.request.Request(
        cluster["server"] + path, headers={"Authorization": f"Bearer {config['users'][0]['user']['token']}"}
    )
    with urllib.request.urlopen(request, context=ssl.create_default_context(cadata=authority), timeout=30) as answer:
        return json.load(answer)


def events_of(kubeconfig: Path, name: str) -> str:
    """Reasons and messages of the events of an object, a line each."""
    found = read(kubeconfig, "events", fieldSelector=f"involvedObject.name={name}")["items"]
    return "\n".join(f"{one['reason']}: {one['message']}" for one in found)
