"""Custom kinds on a server that is not ours: what it did not fill in and did not refuse is made up for on reading.

A stock cluster knows these kinds by their schemas alone.  The rules beyond a schema, which our own server applies on
writing, are applied here: defaults to what the controller sees, and a broken rule to whether it acts at all.
"""

from __future__ import annotations

from ..api import rules
from ..api.admission import convert_older_forms
from ..api.schema.decoding import copy_tree
from ..api.scheme import Object, Resource
from ..decide.plan import Note, Plan


def completed(resource: Resource, stored: Object) -> Object:
    """A copy with every default that our own server would have stored."""
    obj: Object = copy_tree(stored)
    convert_older_forms(resource, obj, lambda _: None)
    rules.default(resource, obj, None)
    return obj


def refusal(resource: Resource, obj: Object) -> Plan | None:
    """What to do instead of acting on an object that our own server would have refused: tell why."""
    problems = rules.validate_create(resource, obj)
    if not problems:
        return None
    text = f"not acted on, because it is invalid: {'; '.join(map(str, problems))}"
    return Plan(notes=(Note(resource, obj, "Warning", "InvalidSpec", text),))
