"""The argument of every handler: request, target, `Verbs`, and the form of the reply."""

from __future__ import annotations

from dataclasses import dataclass

from ....api.access.attributes import User
from ....api.running_pods import RunningPods
from ....api.scheme import REVIEWS, SCALES, Resource
from ...objects.encoded import EncodedVerbs
from ...objects.turns import Turns
from ..replies.encode import Presentation
from ..replies.tables import include_object
from ..requests.content_negotiation import form_of, not_acceptable
from ..requests.gate import Gate
from ..requests.request import Request
from ..requests.routes import Target


@dataclass(frozen=True)
class Call:
    verbs: EncodedVerbs
    request: Request
    target: Target
    now: float
    user: User
    gate: Gate
    turns: Turns
    #: Who shares turns and limits: a user with one program.
    client: str
    #: The pods of nodes that run processes, if there are such nodes.
    pods: RunningPods | None

    @property
    def resource(self) -> Resource:
        return self.target.resource

    @property
    def kind(self) -> Resource:
        """The kind that the body and the reply have: that of the resource, but for `/scale`."""
        return SCALES if self.target.subresource == "scale" else self.target.resource

    def presentation(self) -> Presentation:
        """The form of the reply by the Accept header; 406 if none is supported."""
        form = form_of(self.request.headers.get("accept", ""), custom=not self.kind.builtin)
        if form.shape != "object" and self.resource in REVIEWS:
            raise not_acceptable(custom=False)  # what is never stored has neither rows nor metadata
        include = include_object(self.request) if form.shape == "table" else "Metadata"
        return Presentation(self.kind, self.now, form, include)
