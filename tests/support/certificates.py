"""A private CA and the certificates of a test run, made on the spot."""

import datetime as dt
import ipaddress
import ssl
from dataclasses import dataclass
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

_EPOCH = dt.datetime(2020, 1, 1, tzinfo=dt.UTC)
_FAR = dt.datetime(2099, 1, 1, tzinfo=dt.UTC)


@dataclass(frozen=True)
class Pair:
    """A certificate and its key, as PEM files."""

    cert_file: Path
    key_file: Path

    def server_context(self, client_ca: Path | None = None) -> ssl.SSLContext:
        """A server's context; with ``client_ca`` it insists on a client certificate of that CA."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(self.cert_file, self.key_file)
        if client_ca is not None:
            context.verify_mode = ssl.CERT_REQUIRED
            context.load_verify_locations(client_ca)
        return context


class Authority:
    """Signs certificates; ``ca_file`` is what a client trusts."""

    def __init__(self, folder: Path, name: str = "test ca") -> None:
        self._folder = folder
        self._name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
        self._key = ec.generate_private_key(ec.SECP256R1())
        ca = (
            self._builder(self._name, self._key, _FAR)
            .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
            .add_extension(x509.SubjectKeyIdentifier.from_public_key(self._key.public_key()), critical=False)
            .sign(self._key, hashes.SHA256())
        )
        self.ca_file = folder / f"{name.replace(' ', '-')}.pem"
        self.ca_file.write_bytes(ca.public_bytes(serialization.Encoding.PEM))

    def issue(
        self,
        name: str,
        *,
        addresses: tuple[str, ...] = ("127.0.0.1",),
        hosts: tuple[str, ...] = ("localhost",),
        expired: bool = False,
        password: bytes | None = None,
    ) -> Pair:
        """A certificate for these addresses and hosts; an expired one ended in 2020."""
        key = ec.generate_private_key(ec.SECP256R1())
        until = _EPOCH + dt.timedelta(days=30) if expired else _FAR
        names = [*(x509.DNSName(host) for host in hosts), *(x509.IPAddress(ipaddress.ip_address(a)) for a in addresses)]
        subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
        cert = (
            self._builder(subject, key, until)
            .add_extension(x509.SubjectAlternativeName(names), critical=False)
            .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(self._key.public_key()), critical=False)
            .sign(self._key, hashes.SHA256())
        )
        pair = Pair(self._folder / f"{name}.pem", self._folder / f"{name}.key")
        pair.cert_file.write_bytes(cert.public_bytes(serialization.Encoding.PEM))
        protection = serialization.BestAvailableEncryption(password) if password else serialization.NoEncryption()
        pair.key_file.write_bytes(
            key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, protection)
        )
        return pair

    def _builder(
        self, subject: x509.Name, key: ec.EllipticCurvePrivateKey, until: dt.datetime
    ) -> x509.CertificateBuilder:
        return (
            x509.CertificateBuilder()
            .subject_name(subject)
            .issuer_name(self._name)
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(_EPOCH)
            .not_valid_after(until)
        )
