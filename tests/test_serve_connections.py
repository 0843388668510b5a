"""Connections of a server: strangers have few, and none of them keeps somebody with a token out."""

import asyncio
import contextlib
import resource
import socket
import ssl
import time

import pytest

pytest.importorskip("uvicorn", reason="the extra serve is not installed")

from faults.clock import LONG_S
from served import Role, serving_pages

from realtime_lrp.commands.serve import connections, exchange, guard
from realtime_lrp.commands.serve.certificate import own_context
from realtime_lrp.commands.serve.server import listen


def opened(port, count, address="127.0.0.1"):
    """Connections that send nothing; closed with the context."""
    stack = contextlib.ExitStack()
    for _ in range(count):
        source = (address, 0)
        stack.enter_context(socket.create_connection(("127.0.0.1", port), 300, source))
    return stack


def ended(client):
    """Whether the server closes a connection."""
    client.settimeout(LONG_S)
    with contextlib.suppress(ConnectionResetError):
        return client.recv(1) == b""
    return True


@pytest.mark.parametrize("https", [False, True])
def test_connections_that_send_nothing_keep_nobody_out(https, caplog):
    """By the hundred, before TLS or after it: files stay few, the log empty, requests answered."""
    tls = own_context([])[0] if https else None
    with serving_pages(tls=tls) as served, opened(served.port, 700):
        client = socket.create_connection(("127.0.0.1", served.port), 300)
        if https:
            trusting = ssl.create_default_context()
            trusting.check_hostname, trusting.verify_mode = False, ssl.CERT_NONE
            client = trusting.wrap_socket(client)
        with client:
            client.sendall(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n")
            assert b" 200 " in client.recv(100)
        listening = served.server._socket
        served.until(lambda: sum(one.fileno() >= 0 for one in listening._accepted) < 70)
    assert not caplog.records


def test_a_burst_waits_until_what_was_cut_off_is_closed(monkeypatch, caplog):
    """Nobody is turned away for connections that are about to go."""
    monkeypatch.setattr(connections, "MOST_STRANGERS", 4)
    monkeypatch.setattr(connections, "MOST_OPEN", 10)
    listening = connections.CountingSocket()
    listening.bind(("127.0.0.1", 0))
    listening.listen(20)
    listening.setblocking(False)
    with listening, opened(listening.getsockname()[1], 12):
        accepted = [listening.accept()[0] for _ in range(10)]
        with pytest.raises(BlockingIOError):
            listening.accept()
        for one in accepted[:6]:
            assert one.recv(1) == b"", "cut off"
            one.close()
        accepted = accepted[6:] + [listening.accept()[0] for _ in range(2)]
        for one in accepted:
            one.close()
    assert not caplog.records


def test_the_oldest_of_the_address_with_the_most_goes(monkeypatch):
    """A viewer with a token and strangers of other addresses stay."""
    monkeypatch.setattr(connections, "MOST_STRANGERS", 6)
    with serving_pages() as served, served.socket() as viewer:
        other = socket.create_connection(("127.0.0.1", served.port), 300, ("127.0.0.2", 0))
        first = socket.create_connection(("127.0.0.1", served.port), 300)
        with other, first, opened(served.port, 20):
            assert ended(first)
            other.sendall(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n")
            assert b" 200 " in other.recv(100)
        served.publish(5)
        while isinstance(viewer.recv(timeout=300), str):
            pass


def test_a_handshake_that_never_comes_is_cut_off(monkeypatch):
    """TLS alone would wait for a minute."""
    monkeypatch.setattr(connections, "STRANGER_S", 0.2)
    with serving_pages(tls=own_context([])[0]) as served:
        client = socket.create_connection(("127.0.0.1", served.port), 300)
        with client:
            assert ended(client)


def test_without_files_for_connections_it_says_so_once_and_goes_on(caplog):
    """No traceback, and no message for each connection."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    with serving_pages() as served:
        clients = [socket.socket() for _ in range(30)]
        free = socket.socket()
        number = free.fileno()
        free.close()
        resource.setrlimit(resource.RLIMIT_NOFILE, (number, hard))
        try:
            for client in clients:
                client.settimeout(LONG_S)
                client.connect(("127.0.0.1", served.port))
            served.until(lambda: caplog.records)
            time.sleep(1.2)
        finally:
            resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
        for client in clients:
            client.close()
        assert served.get("/healthz", "")[0] == 200
    [record] = caplog.records
    assert "Too many open files" in record.getMessage() and not record.exc_info


def test_above_the_last_limit_connections_are_closed_at_once(monkeypatch):
    """Whoever they are from."""
    monkeypatch.setattr(connections, "MOST_OPEN", 3)
    with serving_pages() as served, opened(served.port, 3):
        served.until(lambda: len(served.server._socket._accepted) == 3)
        with socket.create_connection(("127.0.0.1", served.port), 300) as client:
            assert ended(client)


def test_watchers_do_not_keep_out_who_controls(monkeypatch):
    """Their requests have an end in number; control has none."""
    monkeypatch.setattr(guard, "MOST_REQUESTS", 1)
    with serving_pages() as served, served.socket(role=Role.WATCH) as watcher:
        watcher.recv(timeout=300)
        token = served.tokens[Role.WATCH]
        assert served.get(f"/?token={token}", "")[0] == 503
        assert served.get("/")[0] == 200
        assert served.get("/healthz", "")[0] == 200


def test_watchers_jobs_do_not_push_out_those_of_who_controls(monkeypatch):
    """The newest is refused, not the oldest forgotten; control always has its turn."""
    monkeypatch.setattr(exchange, "MOST_JOBS", 1)

    async def asked():
        shared, done = exchange.Exchange(), []
        first = asyncio.create_task(shared.in_render_loop(lambda: done.append(1), False))
        await asyncio.sleep(0)
        with pytest.raises(TimeoutError):
            await shared.in_render_loop(lambda: done.append(2), False)
        control = asyncio.create_task(shared.in_render_loop(lambda: done.append(3), True))
        await asyncio.sleep(0)
        shared.run_jobs()
        await asyncio.gather(first, control)
        return done

    assert asyncio.run(asked()) == [1, 3]


def test_one_address_does_not_keep_others_from_watching(monkeypatch):
    """Its newest viewer goes while it has two places more; who controls stays."""
    monkeypatch.setattr(exchange, "MOST_VIEWERS", 4)

    async def seen():
        shared = exchange.Exchange()
        control = shared.join(True, "a")
        many = [shared.join(host="a") for _ in range(3)]
        assert shared.join(host="a") is None
        assert shared.join(host="b") and shared.join(host="b") is None
        with pytest.raises(TimeoutError):
            await many[2].next(shared)
        return [one.cut_off for one in (control, *many)]

    assert asyncio.run(seen()) == [False, False, False, True]


@pytest.mark.parametrize("size", [17_000, 60_000])
def test_a_head_that_is_too_large_is_refused(size):
    """Also one that comes whole, in one piece."""
    with serving_pages() as served:
        assert served.get("/", X="a" * 15_000)[0] == 200
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):
            assert served.get("/", X="a" * size)[0] in (400, 431)


@pytest.mark.parametrize(
    "cookie", ['prefs={"a":1}', "a b=1", "a@b=1", "d=Sun, 22 Nov", "\xe9=1", "=", "a", '"', "x=;;"]
)
def test_cookies_of_other_servers_do_not_hide_ours(cookie):
    """All servers of a host share its cookies, whatever is in them."""
    with serving_pages() as served:
        ours = f"realtime_lrp_{served.port}_control={served.tokens[Role.CONTROL]}"
        assert served.get("/", "", Cookie=f"{cookie}; {ours}")[0] == 200
        assert served.get("/", "", Cookie=f"{ours}; {cookie}")[0] == 200
        assert served.get("/", "", Cookie=cookie)[0] == 401


def test_all_addresses_of_ipv6_are_those_of_ipv4_too():
    """The addresses that are printed have to work."""
    if not socket.has_dualstack_ipv6():
        pytest.skip("this machine has no IPv6")
    with listen("::", 0) as listening:
        port = listening.getsockname()[1]
        with socket.create_connection(("127.0.0.1", port), 300):
            assert listening.accept()[1][0] == "::ffff:127.0.0.1"
