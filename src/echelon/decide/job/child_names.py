"""Names of the objects the Job controller makes: the same for the same Job, so that a repeated create collides.

Kubernetes hashes uids and names with FNV-1a and writes the decimal digits in its vowel-free alphabet.  The names
are never used to find anything again; owners and references are.
"""

from __future__ import annotations

_ALPHABET = "bcdfghjklmnpqrstvwxz2456789"
_NAME_LIMIT = 253
_LABEL_LIMIT = 63
#: Upstream hashes the Go syntax of the uid, type name included.
_UID_PREFIX = "(types.UID)"
#: The server appends five characters to a generated name and keeps the whole within a DNS label.
_GENERATED_PREFIX_LIMIT = 58


def fnv1a_32(data: bytes) -> int:
    value = 0x811C9DC5
    for byte in data:
        value = ((value ^ byte) * 0x01000193) & 0xFFFFFFFF
    return value


def encode(text: str) -> str:
    """Each character mapped into an alphabet that spells no words."""
    return "".join(_ALPHABET[ord(character) % len(_ALPHABET)] for character in text)


def _hash(text: str) -> str:
    return encode(str(fnv1a_32(text.encode())))


def template(job_name: str) -> str:
    """The one PodGroup template in a Job's Workload.

    It is a DNS label: names with dots and long ones are cut and hashed.
    """
    tail = "-pgt-0"
    if "." not in job_name and len(job_name) + len(tail) <= _LABEL_LIMIT:
        return job_name + tail
    digest = _hash(job_name)
    return f"{_cut(job_name.replace('.', '-'), _LABEL_LIMIT - len(tail) - len(digest) - 1)}-{digest}{tail}"


def workload(job_name: str, job_uid: str) -> str:
    digest = _hash(_UID_PREFIX + job_uid)
    return f"{_cut(job_name, _NAME_LIMIT - len(digest) - 1)}-{digest}"


def _cut(name: str, limit: int) -> str:
    """The beginning of a name, ending in a letter or digit."""
    return name[:limit].rstrip("-.")


def pod_group(workload_name: str, template_name: str) -> str:
    """`<workload>-<template>-<hash>`; when too long, a part below half the room is kept whole."""
    digest = _hash(workload_name + template_name)
    room = _NAME_LIMIT - len(digest) - 2
    half = room // 2
    if len(workload_name) + len(template_name) > room:
        if len(workload_name) <= half:
            template_name = _cut(template_name, room - len(workload_name))
        elif len(template_name) <= half:
            workload_name = _cut(workload_name, room - len(template_name))
        else:
            workload_name, template_name = _cut(workload_name, room - half), _cut(template_name, half)
    return f"{workload_name}-{template_name}-{digest}"


def pod_prefix(job_name: str, index: int | None) -> str:
    """`generateName` of a pod; the index survives even if the Job's name has to be cut."""
    tail = "-" if index is None else f"-{index}-"
    if index is None:
        return (job_name + tail)[:_NAME_LIMIT]
    return job_name[: _GENERATED_PREFIX_LIMIT - len(tail)] + tail
