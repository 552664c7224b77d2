"""Programs under test act as they do where they are installed: under the shipped accounts and roles, and no more.

Whatever the authorizer forbids them is a failure of the test that saw it; what admission refuses is not.
"""

from __future__ import annotations

import functools
from collections.abc import AsyncIterator, Iterable
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from echelon.api.errors import ApiError
from echelon.api.group_kinds import GroupSupport
from echelon.api.objects import meta
from echelon.api.scheme import LEASES, NAMESPACES, PODS, ROLE_BINDINGS, ROLES, Object
from echelon.api.verbs import Verbs
from echelon.client.group_discovery import speaking
from echelon.client.http import HttpVerbs
from echelon.deploy.objects.access_rights import access_objects
from echelon.deploy.objects.installation import resource_of
from echelon.deploy.objects.labelled import full_name
from echelon.deploy.options import LEASE_NAMESPACE, PARTS, SCHEDULER, InstallOptions, scheduler_lease

from .audit import nothing_forbidden
from .controlplane import ControlPlane
from .logins import client_of, token_of, with_token
from .waiting import eventually

NAMESPACE = InstallOptions().namespace
#: As long as a whole run.
_TOKEN_SECONDS = 8 * 3600


@dataclass(frozen=True)
class Account:
    """What a program acts through: in this process, or in one of its own."""

    verbs: Verbs
    kubeconfig: Path


@asynccontextmanager
async def under_shipped_roles(
    admin: HttpVerbs, plane: ControlPlane, support: GroupSupport
) -> AsyncIterator[dict[str, Account]]:
    """The account of each program of an installation; in the block nothing may be forbidden to any of them."""
    logins = await _logins(admin, plane, InstallOptions(groups=support.choice))
    with nothing_forbidden(plane.audit_log):
        async with AsyncExitStack() as stack:
            accounts: dict[str, Account] = {}
            for part, login in logins.items():
                client = await stack.enter_async_context(client_of(login))
                accounts[part] = Account(speaking(client, support), login)
            yield accounts


async def _logins(admin: HttpVerbs, plane: ControlPlane, options: InstallOptions) -> dict[str, Path]:
    """A kubeconfig for each program, made once for a control plane."""
    logins = {part: plane.directory / f"{part}.kubeconfig" for part in PARTS}
    if all(login.is_file() for login in logins.values()):
        return logins
    with suppress(ApiError):
        await admin.create(NAMESPACES, {"metadata": {"name": options.namespace}})
    for part, login in logins.items():
        await _create(admin, access_objects(part, options))
        await _until_authorized(admin, part, full_name(part))
        token = await token_of(admin, options.namespace, f"echelon-{part}", _TOKEN_SECONDS)
        with_token(plane.kubeconfig, token, login)
    return logins


@asynccontextmanager
async def scheduler_named(admin: Verbs, name: str) -> AsyncIterator[None]:
    """The scheduler may have the lease that it has where it is started by hand for that name, while the block lasts."""
    assert isinstance(admin, HttpVerbs)
    lease, kinds = scheduler_lease((name,)), (ROLES.kind, ROLE_BINDINGS.kind)
    made = [obj for obj in access_objects(SCHEDULER, InstallOptions()) if obj["kind"] in kinds]
    for obj in made:
        for rule in obj.get("rules", ()):
            if "resourceNames" in rule:
                rule["resourceNames"] = [lease]
        # Beside those of the default name, which other tests need.
        obj["metadata"]["name"] += f"-{name}"
        if "roleRef" in obj:
            obj["roleRef"]["name"] += f"-{name}"
    await _create(admin, made)
    try:
        await _until_authorized(admin, SCHEDULER, lease)
        yield
    finally:
        for obj in made:
            await admin.delete(resource_of(obj), meta.name(obj), meta.namespace(obj))


async def _create(admin: Verbs, objects: Iterable[Object]) -> None:
    for obj in objects:
        await admin.create(resource_of(obj), obj, meta.namespace(obj))


async def _until_authorized(admin: HttpVerbs, part: str, name: str) -> None:
    """The server learns of roles a moment after they are stored, and of each kind of them apart."""
    lease = {"group": LEASES.group, "resource": LEASES.plural, "namespace": LEASE_NAMESPACE, "name": name}
    for wanted in ({**lease, "verb": "update"}, {"resource": PODS.plural, "verb": "watch"}):
        spec = {"user": f"system:serviceaccount:{NAMESPACE}:echelon-{part}", "resourceAttributes": wanted}
        review = {"apiVersion": "authorization.k8s.io/v1", "kind": "SubjectAccessReview", "spec": spec}
        await eventually(functools.partial(_is_allowed, admin, review))


async def _is_allowed(admin: HttpVerbs, review: Object) -> bool:
    answer = await admin._call("POST", "/apis/authorization.k8s.io/v1/subjectaccessreviews", review)
    return bool(answer["status"]["allowed"])
