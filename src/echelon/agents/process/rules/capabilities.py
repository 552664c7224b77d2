"""What a container may do beyond other processes of its user, as its security context has it."""

from __future__ import annotations

from ....api.scheme import Object

#: What a container may do as root, as container runtimes have it by default: change owners, modes and users, bind low
#: ports, send signals, chroot and the like; not mount, nor look into the processes of others.
_DEFAULTS = {
    "CHOWN": 0,
    "DAC_OVERRIDE": 1,
    "FOWNER": 3,
    "FSETID": 4,
    "KILL": 5,
    "SETGID": 6,
    "SETUID": 7,
    "SETPCAP": 8,
    "NET_BIND_SERVICE": 10,
    "NET_RAW": 13,
    "SYS_CHROOT": 18,
    "MKNOD": 27,
    "AUDIT_WRITE": 29,
    "SETFCAP": 31,
}


def kept_capabilities(container: Object) -> list[int]:
    """The numbers of those that the kernel leaves to a container."""
    listed = ((container.get("securityContext") or {}).get("capabilities") or {}).get("drop") or ()
    dropped = {name.upper().removeprefix("CAP_") for name in listed}
    return [number for name, number in _DEFAULTS.items() if not dropped & {"ALL", name}]


def may_gain_rights(container: Object) -> bool:
    """Whether programs with the set-uid bit, as sudo, have an effect."""
    return (container.get("securityContext") or {}).get("allowPrivilegeEscalation") is not False
