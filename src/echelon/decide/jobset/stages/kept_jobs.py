"""What a restart of the whole JobSet leaves alone, if its user wants that.

With `echelon.dev/keep-completed-stages: "true"` a replicated job that others depend on to be Complete, and that is
complete, does not run again: its output is still there.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from ....api.objects.vocabulary import KEEP_COMPLETED_STAGES, REPLICATED_JOB_NAME
from ....api.views.job_views import JobView
from ..model import JobSet


def kept(js: JobSet, jobs: Sequence[JobView]) -> frozenset[str]:
    """The replicated jobs whose Jobs of earlier attempts still count."""
    if js.view.annotations.get(KEEP_COMPLETED_STAGES) != "true":
        return frozenset()
    needed = {one.name for rj in js.replicated for one in rj.depends_on if one.status == "Complete"}
    done = Counter(
        job.labels.get(REPLICATED_JOB_NAME, "") for job in jobs if job.is_true("Complete") and not job.deleting
    )
    return frozenset(rj.name for rj in js.replicated if rj.name in needed and done[rj.name] == rj.replicas)
