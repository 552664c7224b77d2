"""Since when a root is in line: the creation of the object that its user made.

    JobSet, TrainJob ─annotation─► Jobs and groups made for it ─┐
    Job ────────────creation──────────────────────────────────► PlaceInLine ─► RootStates.rank

A later stage, a restarted Job and a replaced pod keep the place of the object that they belong to.
"""

from __future__ import annotations

from ...api.scheme import JOBS
from ...api.views.job_views import JobView
from ...client.informer import Caches
from ..intake.group_tree import Member, Root


class PlaceInLine:
    """Reads the place of a root from what is known of its owners."""

    def __init__(self, caches: Caches) -> None:
        self._jobs = caches.views(JobView)

    def since(self, root: Root) -> str:
        """When the user's object was created; for pods and groups without one, when they were."""
        view = root.pod if isinstance(root, Member) else root.view
        if view is None:
            return root.oldest
        owner = view.controller
        job = self._jobs.get(f"{view.namespace}/{owner.name}") if owner and owner.kind == JOBS.kind else None
        if job is not None and owner is not None and job.uid == owner.uid:
            return job.queued_since
        return view.queued_since
