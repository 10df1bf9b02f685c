"""Certificates for servers of tests, and one TLS context for all of httpx's clients: reading the world's certificates for each
request costs more than the request."""

import datetime as dt
import ipaddress
import os
from collections.abc import Callable
from functools import cache, wraps
from pathlib import Path
from ssl import SSLContext
from typing import Any

import httpx
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

# What httpx reads beside its arguments.
VARIABLES = ("SSL_CERT_FILE", "SSL_CERT_DIR")


def read_once() -> None:
    """Let clients that would build the same context share it, in this process."""
    default: Any = httpx._transports.default
    default.create_ssl_context = _shared(default.create_ssl_context)


def _shared(make: Callable[..., SSLContext]) -> Callable[..., SSLContext]:
    @cache
    def made(_variables: tuple[str | None, ...], *arguments: Any, **options: Any) -> SSLContext:
        return make(*arguments, **options)

    @wraps(make)
    def shared(*arguments: Any, **options: Any) -> SSLContext:
        return made(tuple(map(os.environ.get, VARIABLES)), *arguments, **options)

    return shared


LOOPBACK = (x509.IPAddress(ipaddress.ip_address("127.0.0.1")), x509.DNSName("localhost"))


def self_signed(folder: Path, *subjects: x509.GeneralName) -> tuple[Path, Path]:
    """Write a certificate that signs itself, for these addresses or names (this machine by default), and its key."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "tests")])
    now = dt.datetime.now(dt.UTC)
    names = x509.SubjectAlternativeName(subjects or LOOPBACK)
    signed = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - dt.timedelta(days=1))
        .not_valid_after(now + dt.timedelta(days=1))
        .add_extension(names, critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    certificate, private = folder / "certificate.crt", folder / "certificate.key"
    certificate.write_bytes(signed.public_bytes(serialization.Encoding.PEM))
    plain = serialization.NoEncryption()
    private.write_bytes(
        key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.TraditionalOpenSSL, plain)
    )
    return certificate, private
