"""Features that can be switched off: all are on, and a plane that is told so refuses the fields of one.

The names are upstream's.  A feature that is off is refused where it would be asked for; objects that ask for it
already go on.
"""

from __future__ import annotations

ELASTIC_JOB_SET = "ElasticJobSet"
IN_PLACE_RESTART = "InPlaceRestart"
MUTABLE_RESOURCES = "MutablePodResourcesForSuspendedJobSets"
RESTART_JOB = "RestartJob"
FEATURES = (ELASTIC_JOB_SET, IN_PLACE_RESTART, MUTABLE_RESOURCES, RESTART_JOB)


def disabled(text: str) -> frozenset[str]:
    """The features that a list such as `ElasticJobSet=false,RestartJob=true` switches off; ValueError if invalid."""
    chosen: dict[str, bool] = {}
    for part in filter(None, (one.strip() for one in text.split(","))):
        name, _, value = part.partition("=")
        if name not in FEATURES:
            raise ValueError(f"unknown feature {name!r}; known are {', '.join(FEATURES)}")
        if value not in ("true", "false"):
            raise ValueError(f"{part!r}: say {name}=true or {name}=false")
        chosen[name] = value == "true"
    return frozenset(name for name, on in chosen.items() if not on)
