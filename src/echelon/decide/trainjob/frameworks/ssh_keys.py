"""Key pairs for ssh between the nodes of one TrainJob, as a pure function of random bytes."""

from __future__ import annotations

from base64 import b64encode

from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec

from ....api.scheme import SECRETS, Object
from ..model import TrainJob
from .parts import owned_object

PRIVATE, PUBLIC = "ssh-privatekey", "ssh-publickey"
#: A private key is a number; all that fit here are below the order of P-521.
_KEY_BYTES = 65


def secret(tj: TrainJob, name: str, entropy: bytes) -> Object:
    """A Secret that never changes, with a key pair on the curve P-521."""
    key = ec.derive_private_key(int.from_bytes(entropy[:_KEY_BYTES], "big") + 1, ec.SECP521R1())
    private = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.TraditionalOpenSSL, serialization.NoEncryption()
    )
    public = key.public_key().public_bytes(serialization.Encoding.OpenSSH, serialization.PublicFormat.OpenSSH) + b"\n"
    data = {PRIVATE: b64encode(private).decode(), PUBLIC: b64encode(public).decode()}
    return owned_object(tj, SECRETS, name, type="kubernetes.io/ssh-auth", immutable=True, data=data)
