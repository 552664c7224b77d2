"""Names of everything a JobSet makes: derived from it alone, so that a restart or a resume finds them again."""

from __future__ import annotations

import hashlib

_LONGEST_NAME = 63
_HASH_DIGITS = 10


def job_name(jobset: str, replicated_job: str, index: int) -> str:
    return f"{jobset}-{replicated_job}-{index}"


def claim_name(jobset: str, template: str) -> str:
    return f"{template}-{jobset}"


def job_key(namespace: str, job: str) -> str:
    """A label value unique to a Job in the whole cluster."""
    return hashlib.sha1(f"{namespace}/{job}".encode(), usedforsecurity=False).hexdigest()


def digest(*parts: str) -> str:
    text = "/".join(parts)
    return hashlib.sha1(text.encode(), usedforsecurity=False).hexdigest()[:_HASH_DIGITS]


def group_name(kind: str, namespace: str, jobset: str, item: str = "") -> str:
    """`<jobset>-<hash>` or `<jobset>-<item>-<hash>`; where that is too long, the JobSet's part gives way first."""
    mark = digest(kind, namespace, jobset, *([item] if item else []))
    room = _LONGEST_NAME - len(mark) - 1
    if not item:
        return f"{_cut(jobset, room)}-{mark}"
    head = _cut(jobset, max(1, room - len(item) - 1))
    return f"{_cut(f'{head}-{item}', room)}-{mark}"


def template_name(stem: str, *hashed: str) -> str:
    """A template's name with a hash that keeps it apart from names joined out of others."""
    mark = digest(*hashed)
    return f"{_cut(stem, _LONGEST_NAME - len(mark) - 1)}-{mark}"


def _cut(text: str, length: int) -> str:
    return text[:length].rstrip("-.")
