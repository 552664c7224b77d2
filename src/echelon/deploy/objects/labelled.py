"""Metadata of the objects of an installation: by its label `uninstall` finds what `install` made."""

from __future__ import annotations

from ...api.objects.vocabulary import INSTALLATION, PREFIX
from ...api.scheme import Object, Resource
from ...base.version import __version__
from ..options import InstallOptions

VERSION_LABEL = "app.kubernetes.io/version"
#: On Deployments: the kinds of admission policies that the installation has, or that it has none.
POLICIES = PREFIX + "policies"
_NAME = "app.kubernetes.io/name"
_COMPONENT = "app.kubernetes.io/component"


def full_name(part: str) -> str:
    """The name of every object of a part."""
    return f"echelon-{part}"


def made(
    resource: Resource, name: str, options: InstallOptions, *, namespace: str = "", part: str = "", **body: object
) -> Object:
    """An object of the installation; in its own namespace unless another is named."""
    metadata: Object = {"name": name}
    if resource.namespaced:
        metadata["namespace"] = namespace or options.namespace
    metadata["labels"] = labels(options, part)
    return {"apiVersion": resource.api_version, "kind": resource.kind, "metadata": metadata, **body}


def labels(options: InstallOptions, part: str = "") -> dict[str, str]:
    return {**selector(options, part), VERSION_LABEL: __version__}


def selector(options: InstallOptions, part: str) -> dict[str, str]:
    """Labels that never change: selectors of Deployments cannot."""
    own = {_NAME: "echelon", INSTALLATION: options.namespace}
    return {**own, _COMPONENT: part} if part else own
