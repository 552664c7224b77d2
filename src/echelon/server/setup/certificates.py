"""Certificates and token of the server: a CA, a server certificate, the admin token.

They are created at the first start with mode 0600 in a directory of mode 0700 and reused later, so that a kubeconfig
stays valid.  A server certificate that expires soon or does not name this host is issued again by the same CA.
"""

from __future__ import annotations

import ipaddress
import os
import secrets
import socket
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from ..identity.client_certificates import ADDED_USER

_AUTHORITY_LIFE = timedelta(days=3650)
_SERVER_LIFE = timedelta(days=365)
_RENEW_BEFORE = timedelta(days=30)
_ADDRESSES = ("127.0.0.1", "::1")


@dataclass(frozen=True)
class Credentials:
    """Files for the TLS server, and the contents of a kubeconfig."""

    authority_pem: bytes
    certificate: Path
    key: Path
    token: str
    #: Names and addresses in the certificate.
    names: tuple[str, ...]
    #: The certificate of the CA, which also signs client certificates.
    authority: Path


@dataclass(frozen=True)
class ClientCertificate:
    """A certificate with its key, as a kubeconfig holds them."""

    certificate_pem: bytes
    key_pem: bytes
    #: As Python's ssl module writes serial numbers.
    serial: str


def ensure(directory: Path, now: float, addresses: tuple[str, ...] = ()) -> Credentials:
    """The credentials in `directory`, created or renewed if needed; `addresses` are served besides loopback.

    `now` is real time, because clients check certificates by their own clock.
    """
    directory.mkdir(parents=True, exist_ok=True, mode=0o700)
    instant = datetime.fromtimestamp(now, UTC)
    authority, authority_key = _authority(directory, instant)
    names = ("localhost", socket.gethostname())
    certificate, key = directory / "server.crt", directory / "server.key"
    served = tuple(dict.fromkeys((*_ADDRESSES, *addresses)))
    if not _good(certificate, key, authority, names, served, instant):
        _issue(certificate, key, authority, authority_key, names, served, instant)
    pem = authority.public_bytes(serialization.Encoding.PEM)
    return Credentials(pem, certificate, key, _token(directory / "token"), names + served, directory / "ca.crt")


def write_secret(path: Path, content: bytes) -> None:
    """Write a file atomically with mode 0600."""
    temporary = path.with_name(path.name + ".new")
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(descriptor, "wb") as file:
        os.fchmod(file.fileno(), 0o600)
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    os.replace(temporary, path)


def _token(path: Path) -> str:
    if not path.exists():
        write_secret(path, secrets.token_hex(32).encode())
    return path.read_text().strip()


def signing_key(path: Path) -> ec.EllipticCurvePrivateKey:
    """The key that signs tokens of service accounts, created if it is missing."""
    if not path.exists():
        _keep(path, ec.generate_private_key(ec.SECP256R1()))
    return _load_key(path)


def _authority(directory: Path, now: datetime) -> tuple[x509.Certificate, ec.EllipticCurvePrivateKey]:
    certificate_path, key_path = directory / "ca.crt", directory / "ca.key"
    if certificate_path.exists() and key_path.exists():
        certificate = x509.load_pem_x509_certificate(certificate_path.read_bytes())
        if certificate.not_valid_after_utc > now + _SERVER_LIFE:
            return certificate, _load_key(key_path)
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "echelon-ca")])
    certificate = (
        _certificate(name, name, key.public_key(), now, _AUTHORITY_LIFE)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(_usage(signs_certificates=True), critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        .sign(key, hashes.SHA256())
    )
    _keep(key_path, key)
    write_secret(certificate_path, certificate.public_bytes(serialization.Encoding.PEM))
    return certificate, key


def _good(
    path: Path,
    key: Path,
    authority: x509.Certificate,
    names: tuple[str, ...],
    addresses: tuple[str, ...],
    now: datetime,
) -> bool:
    """Whether the certificate at `path` is valid for this CA and these names, and does not expire soon."""
    if not (path.exists() and key.exists()):
        return False
    certificate = x509.load_pem_x509_certificate(path.read_bytes())
    if certificate.not_valid_after_utc < now + _RENEW_BEFORE or certificate.not_valid_before_utc > now:
        return False
    authority_id = authority.extensions.get_extension_for_class(x509.SubjectKeyIdentifier).value.digest
    signer = certificate.extensions.get_extension_for_class(x509.AuthorityKeyIdentifier).value
    alternatives = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    listed = {str(address) for address in alternatives.get_values_for_type(x509.IPAddress)}
    if not set(names) <= set(alternatives.get_values_for_type(x509.DNSName)) or not set(addresses) <= listed:
        return False
    return signer.key_identifier == authority_id


def _issue(
    path: Path,
    key_path: Path,
    authority: x509.Certificate,
    authority_key: ec.EllipticCurvePrivateKey,
    names: tuple[str, ...],
    addresses: tuple[str, ...],
    now: datetime,
) -> None:
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "echelon")])
    alternatives: list[x509.GeneralName] = [x509.DNSName(name) for name in dict.fromkeys(names)]
    alternatives += [x509.IPAddress(ipaddress.ip_address(address)) for address in addresses]
    signer_id = authority.extensions.get_extension_for_class(x509.SubjectKeyIdentifier).value
    certificate = (
        _certificate(subject, authority.subject, key.public_key(), now, _SERVER_LIFE)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(_usage(signs_certificates=False), critical=True)
        .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
        .add_extension(x509.SubjectAlternativeName(alternatives), critical=False)
        .add_extension(x509.AuthorityKeyIdentifier.from_issuer_subject_key_identifier(signer_id), critical=False)
        .sign(authority_key, hashes.SHA256())
    )
    _keep(key_path, key)
    write_secret(path, certificate.public_bytes(serialization.Encoding.PEM))


def issue_client(directory: Path, user: str, groups: tuple[str, ...], now: float, seconds: float) -> ClientCertificate:
    """A certificate for an added user, signed by the CA in `directory`: CN is the user, every O a group."""
    instant = datetime.fromtimestamp(now, UTC)
    authority, authority_key = _authority(directory, instant)
    key = ec.generate_private_key(ec.SECP256R1())
    subject = [x509.NameAttribute(NameOID.COMMON_NAME, user)]
    subject += [x509.NameAttribute(NameOID.ORGANIZATION_NAME, group) for group in groups]
    subject.append(x509.NameAttribute(NameOID.ORGANIZATIONAL_UNIT_NAME, ADDED_USER))
    life = min(timedelta(seconds=seconds), authority.not_valid_after_utc - instant)
    certificate = (
        _certificate(x509.Name(subject), authority.subject, key.public_key(), instant, life)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(_usage(signs_certificates=False), critical=True)
        .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.CLIENT_AUTH]), critical=False)
        .sign(authority_key, hashes.SHA256())
    )
    plain = serialization.NoEncryption()
    key_pem = key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, plain)
    serial = f"{certificate.serial_number:X}"
    # Whole bytes, as Python's ssl module writes them.
    return ClientCertificate(
        certificate.public_bytes(serialization.Encoding.PEM), key_pem, serial.zfill(len(serial) + len(serial) % 2)
    )


def _certificate(
    subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePublicKey, now: datetime, life: timedelta
) -> x509.CertificateBuilder:
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(hours=1))
        .not_valid_after(now + life)
    )


def _usage(*, signs_certificates: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=not signs_certificates,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=signs_certificates,
        crl_sign=signs_certificates,
        encipher_only=False,
        decipher_only=False,
    )


def _keep(path: Path, key: ec.EllipticCurvePrivateKey) -> None:
    plain = serialization.NoEncryption()
    write_secret(path, key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, plain))


def _load_key(path: Path) -> ec.EllipticCurvePrivateKey:
    key = serialization.load_pem_private_key(path.read_bytes(), password=None)
    if not isinstance(key, ec.EllipticCurvePrivateKey):
        raise ValueError(f"{path} is not an elliptic-curve key; delete it to create a new one")
    return key
