"""Signatures of the examples that AWS publishes for its algorithm."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from echelon.initializers.aws_signature import AccessKeys, signed_headers

KEYS = AccessKeys("AKIAIOSFODNN7EXAMPLE", "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY")
HOST = "https://examplebucket.s3.amazonaws.com"
WHEN = datetime(2013, 5, 24, tzinfo=UTC)


@pytest.mark.parametrize(
    ("path", "headers", "signature"),
    [
        (
            "/test.txt",
            {"Range": "bytes=0-9"},
            "f0e8bdb87c964420e857bd35b5d6ed310bd44f0170aba48dd91039c6036bdb41",
        ),
        ("/?lifecycle", {}, "fea454ca298b7da1c68078a5d1bdbfbbe0d65c699e0f91ac7a200a0136783543"),
        ("/?max-keys=2&prefix=J", {}, "34b48302e7b5fa45bde8084f4b7868a86f0a534bc59db6670ed5711ef69dc6f7"),
    ],
)
def test_published_examples(path: str, headers: dict[str, str], signature: str) -> None:
    signed = signed_headers("GET", HOST + path, "us-east-1", "s3", KEYS, WHEN, headers=headers)
    assert signed["Authorization"].endswith(f"Signature={signature}")


def test_temporary_keys_send_their_token_and_sign_it() -> None:
    temporary = AccessKeys(KEYS.access_key, KEYS.secret_key, "token")
    signed = signed_headers("GET", HOST, "us-east-1", "s3", temporary, WHEN)
    assert signed["X-Amz-Security-Token"] == "token"
    assert "x-amz-security-token" in signed["Authorization"]
