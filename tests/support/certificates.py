"""Certificates for tests, of an authority of their own."""

from __future__ import annotations

import datetime
from dataclasses import dataclass
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from runtime.network.tls import TLS_NAME

_BEGINS = datetime.datetime(2020, 1, 1, tzinfo=datetime.UTC)
_ENDS = datetime.datetime(2100, 1, 1, tzinfo=datetime.UTC)


def _named(text: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, text)])


def _pem(certificate: x509.Certificate) -> bytes:
    return certificate.public_bytes(serialization.Encoding.PEM)


@dataclass(frozen=True, slots=True)
class Authority:
    """Signs certificates."""

    key: ec.EllipticCurvePrivateKey
    certificate: x509.Certificate

    @classmethod
    def new(cls, name: str = "authority of a test") -> Authority:
        key = ec.generate_private_key(ec.SECP256R1())
        return cls(key, _sign(_named(name), key.public_key(), _named(name), key, is_authority=True))

    def write(self, directory: Path, name: str = TLS_NAME) -> Path:
        """Write a certificate for that name and what belongs to it, as TIDEMARK_INTERNAL_TLS wants it."""
        key = ec.generate_private_key(ec.SECP256R1())
        certificate = _sign(_named(name), key.public_key(), self.certificate.subject, self.key, is_authority=False)
        directory.mkdir()
        (directory / "ca.crt").write_bytes(_pem(self.certificate))
        (directory / "tls.crt").write_bytes(_pem(certificate))
        (directory / "tls.key").write_bytes(
            key.private_bytes(
                serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
            )
        )
        return directory


def _sign(
    subject: x509.Name,
    public_key: ec.EllipticCurvePublicKey,
    issuer: x509.Name,
    key: ec.EllipticCurvePrivateKey,
    is_authority: bool,
) -> x509.Certificate:
    name = subject.get_attributes_for_oid(NameOID.COMMON_NAME)[0].value
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(public_key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(_BEGINS)
        .not_valid_after(_ENDS)
        .add_extension(x509.SubjectAlternativeName([x509.DNSName(str(name).replace(" ", "-"))]), critical=False)
        .add_extension(x509.BasicConstraints(ca=is_authority, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
