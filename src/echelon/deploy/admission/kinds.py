"""The kinds of admission policies, which our own server does not serve: it has the rules themselves."""

from __future__ import annotations

from ...api.scheme import Resource

GROUP_VERSION = "admissionregistration.k8s.io/v1"
_GROUP, _VERSION = GROUP_VERSION.split("/")


def _kind(plural: str, kind: str) -> Resource:
    return Resource(_GROUP, _VERSION, plural, kind, namespaced=False)


VALIDATING_POLICIES = _kind("validatingadmissionpolicies", "ValidatingAdmissionPolicy")
VALIDATING_BINDINGS = _kind("validatingadmissionpolicybindings", "ValidatingAdmissionPolicyBinding")
MUTATING_POLICIES = _kind("mutatingadmissionpolicies", "MutatingAdmissionPolicy")
MUTATING_BINDINGS = _kind("mutatingadmissionpolicybindings", "MutatingAdmissionPolicyBinding")
#: Policies before their bindings.
POLICY_KINDS = (VALIDATING_POLICIES, VALIDATING_BINDINGS, MUTATING_POLICIES, MUTATING_BINDINGS)
