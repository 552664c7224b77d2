"""When a run that does not move is blocked."""

from __future__ import annotations

import pytest

from echelon.api.scheme import JOBS, Object
from echelon.base.clock import ManualClock
from echelon.cli.following.progress import Progress
from echelon.client.informer import Caches

JOB: Object = {"metadata": {"namespace": "default", "name": "train", "resourceVersion": "1"}, "spec": {"suspend": True}}


@pytest.mark.parametrize(
    ("cluster_seconds", "real_seconds", "end"),
    [(4.9, 4.9, None), (5.0, 5.0, "blocked"), (5.0, 0.25, None), (20.0, 1.0, "blocked")],
)
def test_a_run_is_quiet_for_some_cluster_time_and_some_real_time(
    cluster_seconds: float, real_seconds: float, end: str | None
) -> None:
    now = {"cluster": 0.0, "real": 0.0}
    caches = Caches(None, ManualClock())  # type: ignore[arg-type]  # what it holds comes through `observe`
    progress = Progress(caches, lambda: now["cluster"], real=lambda: now["real"])
    caches.observe(JOBS, JOB)
    progress.add(JOBS, JOB)
    now.update(cluster=cluster_seconds, real=real_seconds)
    assert progress.ended() == end
