"""The certificate that the Flux brokers of one TrainJob share, as a pure function of random bytes."""

from __future__ import annotations

from base64 import b64encode
from hashlib import sha256

from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey

from ....api.scheme import SECRETS, Object
from ..model import TrainJob
from .parts import owned_object

#: The digits of Z85, in which ZeroMQ writes keys.
_DIGITS = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ.-:+=^!/*?&<>()[]{}@%$#"


def secret(tj: TrainJob, name: str, entropy: bytes) -> Object:
    key = X25519PrivateKey.from_private_bytes(sha256(entropy).digest())
    public, private = key.public_key().public_bytes_raw(), key.private_bytes_raw()
    text = (
        "#  ZeroMQ CURVE Secret Certificate\n\n"
        f'metadata\n    name = "{tj.name}"\n'
        f'curve\n    public-key = "{_z85(public)}"\n    secret-key = "{_z85(private)}"\n'
    )
    return owned_object(tj, SECRETS, name, type="Opaque", data={"curve.cert": b64encode(text.encode()).decode()})


def _z85(data: bytes) -> str:
    """Four bytes as five digits, the most significant first."""
    digits: list[str] = []
    for start in range(0, len(data), 4):
        value = int.from_bytes(data[start : start + 4], "big")
        digits += [_DIGITS[value // 85**power % 85] for power in (4, 3, 2, 1, 0)]
    return "".join(digits)
