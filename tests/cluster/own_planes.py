"""A control plane for some tests alone, or their skip where its programs were not built."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager

import pytest

from . import audit
from .controlplane import ControlPlane, GateSet, control_plane, home, missing
from .installing import kubectl_now
from .shipped_roles import NAMESPACE

_WATCHED = audit.policy(NAMESPACE)


def skip_without_control_plane() -> None:
    if missing():
        pytest.skip(f"NO REAL CONTROL PLANE in {home()}: `make cluster-tools` builds it where Go is present")


@contextmanager
def own_plane(
    places: pytest.TempPathFactory,
    name: str,
    *,
    manager: bool = True,
    strict: bool = True,
    gates: GateSet = GateSet.ALL,
    watched: Mapping[str, object] = _WATCHED,
) -> Iterator[ControlPlane]:
    """With service accounts and owners that only those may block who may finalize them, unless told otherwise.

    Its audit log has what is asked under the accounts of an installation.
    """
    skip_without_control_plane()
    with control_plane(places.mktemp(name), manager=manager, strict=strict, gates=gates, audit=watched) as plane:
        if manager:
            # What comes to every namespace by itself must not look as if a test had left it.
            kubectl_now(plane, "wait", "--for=create", "configmap/kube-root-ca.crt", "-n", "default", "--timeout=180s")
        yield plane
