"""How the page is reached: its addresses, tokens to control or to watch, and HTTPS.

Token and certificate are kept for this user, so that phones come back after a restart.
"""

import datetime
import hashlib
import hmac
import io
import ipaddress
import logging
import os
import re
import secrets
import socket
import ssl
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from enum import Enum
from pathlib import Path

import psutil
import segno
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID
from platformdirs import user_state_path

from realtime_lrp.config.schema import Serve
from realtime_lrp.errors import ConfigError, DamagedInputError, Error, UsageError
from realtime_lrp.system.files import atomic_file, read_limited, temporary_folder
from realtime_lrp.system.program import print_lines

log = logging.getLogger(__name__)


def print_address(serve: Serve, port: int, token: str) -> None:
    """Prints the address to open; at a terminal also its QR code, if phones can reach it."""
    host = addresses(serve.host)[0]
    host = f"[{host}]" if ":" in host else host
    scheme = "https" if serve.https or serve.cert else "http"
    address = f"{scheme}://{host}:{port}/?token={token}"
    phones = sys.stdout.isatty() and not is_loopback(serve.host)
    print_lines([address, *(qr_lines(address) if phones else ())], secrets=True)


def qr_lines(address: str) -> list[str]:
    """An address as text, two rows of modules in each line; for dark and light terminals."""
    out = io.StringIO()
    segno.make(address, error="m").terminal(out, compact=True)
    return out.getvalue().splitlines()


def qr_code(address: str) -> bytes:
    """An address as SVG, black on white; ValueError if it is too long."""
    out = io.BytesIO()
    code = segno.make(address, error="m")
    code.save(out, kind="svg", scale=8, border=4, dark="#000", light="#fff", xmldecl=False)
    return out.getvalue()


def is_loopback(host: str) -> bool:
    """Whether only this machine reaches a host."""
    return host in ("localhost", "::1") or host.startswith("127.")


def addresses(host: str) -> list[str]:
    """The addresses of a server that listens on a host; for all of them, this machine's."""
    if host not in ("0.0.0.0", "::", ""):
        return [host]
    up = {name for name, one in psutil.net_if_stats().items() if one.isup}
    found = [
        one.address
        for name, ones in psutil.net_if_addrs().items()
        if name in up
        for one in ones
        if one.family == socket.AF_INET and not one.address.startswith("127.")
    ]
    return found or ["127.0.0.1"]


VARIABLE = "REALTIME_LRP_TOKEN"
LEAST, MOST = 22, 200  # letters of a token; 22 of 64 different ones are 132 bits

_LEGAL = re.compile(rf"[A-Za-z0-9_~.-]{{{LEAST},{MOST}}}")


class Role(Enum):
    """A viewer's rights."""

    CONTROL = "control"
    WATCH = "watch"


class Tokens(dict[Role, str]):
    """The token of each role; that for watching does not give away the other one."""

    def __init__(self, control: str):
        watch = hmac.new(control.encode(), b"watch", hashlib.sha256).hexdigest()[:32]
        super().__init__({Role.CONTROL: control, Role.WATCH: watch})

    def role(self, given: str) -> Role | None:
        """The role of a token, None of a wrong one. Takes as long for every token."""
        wanted = given.encode(errors="replace")
        fits = {hmac.compare_digest(token.encode(), wanted): role for role, token in self.items()}
        return fits.get(True)


def read_token(file: str | None, new: bool = False) -> str:
    """The token out of a file or the environment variable, else the kept one, made anew if `new`.

    The variable is removed: child processes must not know it.
    """
    given = os.environ.pop(VARIABLE, None)
    if new and (file is not None or given):
        source = VARIABLE if file is None else "--token-file"
        raise UsageError(f"--new-token replaces the kept token, but {source} gives one. Drop one.")
    if file is not None:
        return _read(Path(file))
    if given:
        return _checked(given.strip(), VARIABLE)
    with kept_folder() as folder:
        kept = folder / "token"
        if not new:
            with suppress(Error):  # there is none, or it is one no more
                return _read(kept)
        made = secrets.token_urlsafe(24)
        write_private(kept, made.encode())
        return made


def _read(file: Path) -> str:
    expected = "a token, as made by: openssl rand -hex 24 > FILE && chmod 600 FILE"
    text = read_limited(file, 1 << 20, expected).decode(errors="replace").strip()
    if not is_private(file):
        raise ConfigError(
            f"Others can read the token file {str(file)!r}. Run: chmod 600 {str(file)!r}"
        )
    return _checked(text, repr(str(file)))


def _checked(token: str, source: str) -> str:
    if not _LEGAL.fullmatch(token):
        raise ConfigError(
            f"The token in {source} has {len(token)} characters or some that are not allowed. "
            f"Expected {LEAST} to {MOST} letters, digits, '-', '_', '.' or '~'."
        )
    return token


@contextmanager
def kept_folder() -> Iterator[Path]:
    """The folder of what is kept; where there can be none, one that is gone afterwards."""
    try:
        folder = user_state_path("realtime-lrp") / "serve"
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        kept = os.access(folder, os.W_OK | os.X_OK)
    except (OSError, RuntimeError):  # also a user without a home
        kept = False
    if kept:
        yield folder
        return
    log.warning("token and certificate cannot be saved: they will change at the next start")
    with temporary_folder() as folder:
        yield folder


def write_private(file: Path, data: bytes) -> None:
    """Writes a file that nobody else can read."""
    with atomic_file(file, overwrite=True) as part:
        part.touch(mode=0o600)
        part.write_bytes(data)


def is_private(file: Path) -> bool:
    """Whether only its user can read a file."""
    return os.name != "posix" or not file.stat().st_mode & 0o077


VALID = datetime.timedelta(days=365)
RENEWED = datetime.timedelta(days=30)
"""How long our own certificate is valid, and how long before the end a start makes another one."""

CLOCKS = datetime.timedelta(days=1)  # a phone's clock may be behind by this


def tls_of(serve: Serve, new: bool = False) -> tuple[ssl.SSLContext | None, str]:
    """The server's context for HTTPS, None for HTTP; the fingerprint of our own certificate.

    The fingerprint is "" for other certificates. `new`: our own certificate is made anew.
    """
    if serve.cert or serve.key:
        return context_of_files(serve.cert, serve.key), ""
    if not serve.https:
        if not is_loopback(serve.host):
            log.warning(
                "pictures and token travel unencrypted, and phones will not share their camera; "
                "use --https"
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
    """The server's TLS context from two PEM files."""
    if cert is None or key is None:
        raise ConfigError("--cert and --key belong together. Give both, or --https alone.")
    for file in (cert, key):
        read_limited(Path(file), 1 << 20, "a PEM file")
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
    """The server's TLS context without files of the user, and its fingerprint.

    The certificate is kept for this user, until a `new` one is wanted: browsers ask once for each.
    """
    subjects = {"localhost", "127.0.0.1", "::1", socket.gethostname(), *names}
    with kept_folder() as folder:
        file = folder / "certificate.pem"
        if new or not _is_usable(file, subjects):
            certificate, key = make_certificate(subjects)
            write_private(file, key + certificate.public_bytes(serialization.Encoding.PEM))
        context = context_of_files(str(file), str(file))
        certificate = x509.load_pem_x509_certificate(file.read_bytes())
    return context, certificate.fingerprint(hashes.SHA256()).hex(":").upper()


def _is_usable(file: Path, subjects: set[str]) -> bool:
    """Whether a certificate is for these subjects, for some time to come, and nobody else's."""
    try:
        context_of_files(str(file), str(file))
        certificate = x509.load_pem_x509_certificate(file.read_bytes())
        named = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
        private = is_private(file)
    except (Error, OSError, ValueError, x509.ExtensionNotFound):
        return False
    lasts = certificate.not_valid_after_utc - datetime.datetime.now(datetime.UTC) > RENEWED
    return private and lasts and {*_subjects(subjects)} <= {*named}


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
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
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
