"""Names of the group objects of a TrainJob.

The pods' template names its group and cannot change later, so the names are the same after every resume.
"""

from __future__ import annotations

from collections.abc import Iterable

from .model import TrainJob

_LONGEST = 63
#: The alphabet of Kubernetes' hash suffixes.
_SAFE = "bcdfghjklmnpqrstvwxz2456789"


def template_name(words: Iterable[str]) -> str:
    name = "-".join(words)
    return name if len(name) <= _LONGEST else f"{name[:52].rstrip('-')}-{safe_hash(name)}"


def group_name(tj: TrainJob, workload: str, template: str, jobs: int = 0) -> str:
    """`<workload>-<template>-<hash>`; the hash tells a TrainJob from an earlier one of the same name.

    With `jobs` there is room left for the index of a Job, see `group_of_job`.
    """
    mark = safe_hash(tj.uid + template)
    room = _LONGEST - len(mark) - 2 - (len(str(jobs)) + 1 if jobs else 0)
    if len(workload) + len(template) > room:
        # Both give way, the longer one first, so that either can still be told.
        cut_template = min(len(template), max(room // 2, room - len(workload)))
        template = template[:cut_template].rstrip("-")
        workload = workload[: room - len(template)].rstrip("-")
    return f"{workload}-{template}-{mark}"


def group_of_job(prefix: str, index: int) -> str:
    return f"{prefix}-{index}"


def safe_hash(text: str) -> str:
    """FNV-1a (32 bit) of a text, written as Kubernetes writes hashes into names."""
    value = 0x811C9DC5
    for byte in text.encode():
        value = ((value ^ byte) * 0x01000193) & 0xFFFFFFFF
    return "".join(_SAFE[ord(digit) % len(_SAFE)] for digit in str(value))
