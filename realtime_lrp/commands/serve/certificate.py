"""HTTPS: certificates out of files, or one that this machine makes for itself."""

import datetime
import ipaddress
import logging
import socket
import ssl
from collections.abc import Iterable
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from realtime_lrp.commands.serve.addresses import addresses, is_loopback
from realtime_lrp.commands.serve.tokens import is_private, kept_folder, write_private
from realtime_lrp.config.schema import Serve
from realtime_lrp.errors import ConfigError, DamagedInputError, Error, MissingInputError

VALID, RENEWED = datetime.timedelta(days=365), datetime.timedelta(days=30)
"""How long our own certificate is valid, and how long before the end a start makes another one."""

CLOCKS = datetime.timedelta(days=1)  # a phone's clock may be behind by this

log = logging.getLogger(__name__)


def tls_of(serve: Serve, new: bool = False) -> tuple[ssl.SSLContext | None, str]:
    """What the server speaks HTTPS with, None for HTTP; the fingerprint of our own certificate.

    The fingerprint is "" for others. `new`: our own certificate is made anew.
    """
    if serve.cert or serve.key:
        return context_of_files(serve.cert, serve.key), ""
    if not serve.https:
        if not is_loopback(serve.host):
            log.warning(
                "pictures and token go over the network unencrypted, and phones do not give their "
                "camera; see --https"
            )
        return None, ""
    context, fingerprint = own_context([*addresses(serve.host), *serve.names], new)
    log.warning(
        "browsers will say that the connection is not private, because this machine made the "
        "certificate itself. Choose Advanced, then Proceed (Safari: Show Details, then visit this "
        "website; Firefox: Advanced, then Accept the Risk). Its SHA-256 fingerprint is %s",
        fingerprint,
    )
    return context, fingerprint


def context_of_files(cert: str | None, key: str | None) -> ssl.SSLContext:
    """What the server speaks TLS with, out of two PEM files."""
    if cert is None or key is None:
        raise ConfigError("--cert and --key belong together. Give both, or --https alone.")
    for file in (cert, key):
        try:
            Path(file).open("rb").close()
        except (OSError, ValueError) as error:
            reason = getattr(error, "strerror", None) or error
            raise MissingInputError(f"{file!r} cannot be read ({reason}).") from None
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    try:
        context.load_cert_chain(cert, key, password="")  # else it asks at the terminal
    except OSError:  # also of the TLS library, whose reasons nobody can read
        raise DamagedInputError(
            f"The certificate {cert!r} cannot be used with the key {key!r}. Expected two PEM files "
            "that belong together, the key without a password."
        ) from None
    return context


def own_context(names: Iterable[str], new: bool = False) -> tuple[ssl.SSLContext, str]:
    """What the server speaks TLS with, without files of the user, and its fingerprint.

    The certificate is kept for this user, until a `new` one is wanted: browsers ask once for each.
    """
    subjects = {"localhost", "127.0.0.1", "::1", socket.gethostname(), *names}
    with kept_folder() as folder:
        file = folder / "certificate.pem"
        certificate = None if new else _kept(file, subjects)
        if certificate is None:
            certificate, key = make_certificate(subjects)
            write_private(file, key + certificate.public_bytes(serialization.Encoding.PEM))
        context = context_of_files(str(file), str(file))
    return context, certificate.fingerprint(hashes.SHA256()).hex(":").upper()


def _kept(file: Path, subjects: set[str]) -> x509.Certificate | None:
    """The certificate that is kept, if it can be used for some time."""
    try:
        context_of_files(str(file), str(file))
        certificate = x509.load_pem_x509_certificate(file.read_bytes())
        named = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
        private = is_private(file.stat().st_mode)
    except (Error, OSError, ValueError, x509.ExtensionNotFound):
        return None
    lasts = certificate.not_valid_after_utc - datetime.datetime.now(datetime.UTC) > RENEWED
    return certificate if private and lasts and {*_subjects(subjects)} <= {*named} else None


def make_certificate(subjects: Iterable[str]) -> tuple[x509.Certificate, bytes]:
    """A new certificate for numbers and names, which vouches for itself, and its key as PEM."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "realtime_lrp")])
    now = datetime.datetime.now(datetime.UTC)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - CLOCKS)
        .not_valid_after(now + VALID)
        .add_extension(x509.SubjectAlternativeName(_subjects(subjects)), critical=False)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
        .sign(key, hashes.SHA256())
    )
    pem = key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    )
    return certificate, pem


def _subjects(names: Iterable[str]) -> list[x509.GeneralName]:
    subjects: list[x509.GeneralName] = []
    for name in sorted(names):
        try:
            subjects.append(x509.IPAddress(ipaddress.ip_address(name)))
        except ValueError:
            if name.isascii():
                subjects.append(x509.DNSName(name))
    return subjects
