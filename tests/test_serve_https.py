"""HTTPS of the web page: certificates, their faults, and addresses as QR codes."""

import ipaddress
import ssl
import urllib.request

import pytest

pytest.importorskip("cryptography", reason="the extra serve is not installed")
pytest.importorskip("uvicorn", reason="the extra serve is not installed")

import cv2
import numpy as np
from cryptography import x509
from cryptography.hazmat.primitives import serialization
from served import TOKEN, serving_pages

from realtime_lrp.commands.serve import access
from realtime_lrp.commands.serve.access import (
    context_of_files,
    make_certificate,
    own_context,
    qr_lines,
)
from realtime_lrp.errors import ConfigError, DamagedInputError, MissingInputError


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """Certificate and key as a user keeps them, and a key of another certificate."""
    folder = tmp_path_factory.mktemp("tls")
    made, key = make_certificate(["lrp.example.org", "127.0.0.1"])
    pem = made.public_bytes(serialization.Encoding.PEM)
    for name, data in (
        ("cert.pem", pem), ("key.pem", key), ("other.pem", make_certificate([])[1]),
        ("text.pem", b"no certificate"),
    ):  # fmt: skip
        (folder / name).write_bytes(data)
    private = serialization.load_pem_private_key(key, None)
    locked = serialization.BestAvailableEncryption(b"secret")
    (folder / "locked.pem").write_bytes(
        private.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, locked)
    )
    return folder


def test_our_certificate_is_for_the_addresses_of_this_machine():
    """Numbers and names; for servers, for a year; its key is new each time."""
    names = "192.168.7.7", "lrp.example.org", "fe80::1"
    made, key = make_certificate(names)
    subjects = made.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    names, numbers = (set(subjects.get_values_for_type(k)) for k in (x509.DNSName, x509.IPAddress))
    assert names == {"lrp.example.org"}
    assert numbers == {ipaddress.ip_address(number) for number in ("192.168.7.7", "fe80::1")}
    assert (made.not_valid_after_utc - made.not_valid_before_utc).days == 366
    assert key != make_certificate([])[1]


def test_the_server_speaks_https_with_the_files_of_a_user(files):
    """A client that trusts the certificate gets its answer; plain HTTP gets none."""
    context = context_of_files(str(files / "cert.pem"), str(files / "key.pem"))
    with serving_pages(tls=context) as served:
        trusting = ssl.create_default_context(cafile=files / "cert.pem")
        address = f"https://127.0.0.1:{served.port}/healthz"
        with urllib.request.urlopen(address, context=trusting, timeout=60) as answer:
            assert answer.read() == b"ok\n"
        page = address.replace("healthz", f"?token={TOKEN}")
        with urllib.request.urlopen(page, context=trusting, timeout=60) as answer:
            assert answer.headers["Set-Cookie"].endswith("; HttpOnly; SameSite=Strict; Secure")
        with pytest.raises(OSError):
            urllib.request.urlopen(address.replace("https", "http"), timeout=10)


def test_our_own_certificate_is_kept_until_it_does_not_fit(tmp_path, monkeypatch):
    """A browser that has accepted it accepts it again: the fingerprint is what browsers show."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    file = tmp_path / "realtime-lrp" / "serve" / "certificate.pem"
    context, first = own_context(["192.168.7.7"])
    assert isinstance(context, ssl.SSLContext) and len(first) == 95
    assert file.stat().st_mode & 0o777 == 0o600
    assert own_context(["192.168.7.7"])[1] == own_context([])[1] == first
    second = own_context(["192.168.7.8"])[1]
    assert second != first, "another address"
    third = own_context(["192.168.7.8"], new=True)[1]
    assert third != second
    for harm in (lambda: file.chmod(0o640), lambda: file.write_bytes(b"damaged")):
        harm()
        fourth = own_context(["192.168.7.8"])[1]
        assert fourth != third and file.stat().st_mode & 0o777 == 0o600
        third = fourth
    monkeypatch.setattr(access, "RENEWED", access.VALID)
    assert own_context(["192.168.7.8"])[1] != third, "it ends soon"


@pytest.mark.parametrize(
    ("cert", "key", "error", "said"),
    [
        ("cert.pem", None, ConfigError, "belong together"),
        (None, "key.pem", ConfigError, "belong together"),
        ("nothing.pem", "key.pem", MissingInputError, "nothing.pem"),
        ("cert.pem", "other.pem", DamagedInputError, "Expected two PEM files"),
        ("text.pem", "key.pem", DamagedInputError, "Expected two PEM files"),
        ("cert.pem", "cert.pem", DamagedInputError, "Expected two PEM files"),
        ("cert.pem", "locked.pem", DamagedInputError, "without a password"),
    ],
)
def test_certificates_that_cannot_be_used_are_refused(files, cert, key, error, said):
    """In a sentence; nobody is asked for a password."""
    with pytest.raises(error, match=said):
        context_of_files(cert and str(files / cert), key and str(files / key))


def test_the_code_in_the_terminal_is_that_of_the_address():
    """Each letter is two modules: the upper and the lower half of a block."""
    address = "https://192.168.7.7:8090/?token=" + "x" * 32
    halves = {" ": (0, 0), "\u2580": (1, 0), "\u2584": (0, 1), "\u2588": (1, 1)}
    rows = [[halves[letter] for letter in line] for line in qr_lines(address)]
    modules = np.array(rows, np.uint8).transpose(0, 2, 1).reshape(2 * len(rows), -1)
    picture = cv2.resize(255 * modules, None, fx=8, fy=8, interpolation=cv2.INTER_NEAREST)
    assert cv2.QRCodeDetector().detectAndDecode(picture)[0] == address
