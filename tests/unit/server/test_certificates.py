"""Secrets on disk: made once, private, trusted by a TLS client, renewed in time."""

from __future__ import annotations

import ssl
import stat
from pathlib import Path

import pytest
import yaml
from cryptography import x509

from echelon.server.https_server import ServerSettings
from echelon.server.setup import certificates, kubeconfigs

NOW = 1_800_000_000.0
DAY = 86400.0


def test_second_start_uses_the_same_secrets(tmp_path: Path) -> None:
    first = certificates.ensure(tmp_path / "pki", NOW)
    before = first.certificate.read_bytes()
    assert certificates.ensure(tmp_path / "pki", NOW + 10 * DAY) == first
    assert first.certificate.read_bytes() == before


def test_files_are_readable_by_their_owner_only(tmp_path: Path) -> None:
    certificates.ensure(tmp_path / "pki", NOW)
    modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in (tmp_path / "pki").iterdir()}
    assert set(modes) == {"ca.crt", "ca.key", "server.crt", "server.key", "token"}
    assert set(modes.values()) == {0o600}
    assert stat.S_IMODE((tmp_path / "pki").stat().st_mode) == 0o700


def test_token_has_256_bits(tmp_path: Path) -> None:
    token = certificates.ensure(tmp_path, NOW).token
    assert len(bytes.fromhex(token)) == 32


def test_server_certificate_is_renewed_before_it_expires_and_the_authority_stays(tmp_path: Path) -> None:
    first = certificates.ensure(tmp_path, NOW)
    before = first.certificate.read_bytes()
    later = certificates.ensure(tmp_path, NOW + 340 * DAY)
    assert later.certificate.read_bytes() != before
    assert later.authority_pem == first.authority_pem
    assert later.token == first.token


def test_certificate_is_good_for_loopback_and_signed_by_the_authority(tmp_path: Path) -> None:
    made = certificates.ensure(tmp_path, NOW)
    authority = x509.load_pem_x509_certificate(made.authority_pem)
    server = x509.load_pem_x509_certificate(made.certificate.read_bytes())
    server.verify_directly_issued_by(authority)
    names = server.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    assert [str(a) for a in names.get_values_for_type(x509.IPAddress)] == ["127.0.0.1", "::1"]
    assert "localhost" in names.get_values_for_type(x509.DNSName)
    ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_cert_chain(made.certificate, made.key)


def test_kubeconfig_is_private_and_complete(tmp_path: Path) -> None:
    path = tmp_path / "deep" / "kubeconfig"
    kubeconfigs.write(path, "https://127.0.0.1:1", b"PEM", "secret")
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    content = yaml.safe_load(path.read_text())
    assert content["current-context"] == "echelon"
    assert content["clusters"][0]["cluster"]["server"] == "https://127.0.0.1:1"
    assert content["users"][0]["user"] == {"token": "secret"}


@pytest.mark.conformance("API-115")
def test_other_addresses_than_loopback_need_rbac(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="needs RBAC"):
        ServerSettings(tmp_path, host="0.0.0.0")
    assert ServerSettings(tmp_path, host="0.0.0.0", authorization="rbac").host == "0.0.0.0"


def test_the_certificate_names_the_address_that_is_listened_on(tmp_path: Path) -> None:
    certificates.ensure(tmp_path, NOW)
    made = certificates.ensure(tmp_path, NOW, ("192.0.2.7",))
    loaded = x509.load_pem_x509_certificate(made.certificate.read_bytes())
    found = loaded.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    assert "192.0.2.7" in [str(a) for a in found.get_values_for_type(x509.IPAddress)]
    assert "192.0.2.7" in made.names
