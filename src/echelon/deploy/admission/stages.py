"""Rules of annotations about stages and quota, on JobSets and TrainJobs: see `api.rules.jobset_stages`.

They need the variable `notes`, the annotations of the object.
"""

from __future__ import annotations

from ...api.objects.vocabulary import KEEP_COMPLETED_STAGES, QUOTA_ADMISSION, QUOTA_TIMEOUT
from ...api.rules.jobset_stages import ADMISSIONS, MOST_STAGED_JOBS
from .cel_rule import CelRule

_ADMISSION, _TIMEOUT, _KEEP = (f"'{name}'" for name in (QUOTA_ADMISSION, QUOTA_TIMEOUT, KEEP_COMPLETED_STAGES))
#: Digits, not all of them 0, and no more than a count can have.
_COUNT = "^0*[1-9][0-9]{0,17}$"


def stage_rules(jobs: str = "0", *, changed: bool = False) -> list[CelRule]:
    """`jobs`: how many replicated jobs there are.  `changed`: what was stored before stays."""
    found = [
        (
            (QUOTA_ADMISSION,),
            QUOTA_ADMISSION,
            f"supported values: {', '.join(ADMISSIONS)}",
            f"!({_ADMISSION} in variables.notes) || variables.notes[{_ADMISSION}] in {list(ADMISSIONS)}",
        ),
        (
            (QUOTA_ADMISSION,),
            QUOTA_ADMISSION,
            f"a JobSet that waits for quota has no more than {MOST_STAGED_JOBS} replicatedJobs",
            f"!({_ADMISSION} in variables.notes) || {jobs} <= {MOST_STAGED_JOBS}",
        ),
        (
            (QUOTA_TIMEOUT,),
            QUOTA_TIMEOUT,
            "must be a number of seconds above 0",
            f"!({_TIMEOUT} in variables.notes) || variables.notes[{_TIMEOUT}].matches(r'{_COUNT}')",
        ),
        (
            (QUOTA_TIMEOUT, QUOTA_ADMISSION),
            QUOTA_TIMEOUT,
            f"needs the annotation {QUOTA_ADMISSION}",
            f"!({_TIMEOUT} in variables.notes) || {_ADMISSION} in variables.notes",
        ),
        (
            (KEEP_COMPLETED_STAGES,),
            KEEP_COMPLETED_STAGES,
            "supported values: true, false",
            f"!({_KEEP} in variables.notes) || variables.notes[{_KEEP}] in ['true', 'false']",
        ),
    ]
    rules = []
    for read, name, detail, holds in found:
        rule = CelRule(f"metadata.annotations[{name}]", detail, holds)
        rules.append(rule.only_if(" || ".join(map(_differs, read))) if changed else rule)
    return rules


def _differs(name: str) -> str:
    return f"variables.notes[?'{name}'] != variables.oldNotes[?'{name}']"
