"""A local web server whose answers a test chooses."""

import functools
import http.server
import threading
from contextlib import contextmanager


@contextmanager
def serving(answer):
    """Runs a local server that answers GET with `answer`; gives its address and requested paths."""
    asked = []

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            asked.append(self.path)
            answer(self)

        def log_message(self, *words):
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}", asked
    finally:
        server.shutdown()
        server.server_close()


@contextmanager
def serving_files(folder, **head):
    """The address of a server for the files of a folder, which sends more heads, and the server."""

    class Handler(http.server.SimpleHTTPRequestHandler):
        def log_message(self, *words):
            pass

        def end_headers(self):
            for name, value in head.items():
                self.send_header(name.replace("_", "-"), value)
            super().end_headers()

    handler = functools.partial(Handler, directory=str(folder))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}/", server
        server.shutdown()


def sends(body, length=None, status=200):
    """Returns an answer that sends a body and announces a length."""

    def answer(handler):
        handler.send_response(status)
        handler.send_header("Content-Length", str(len(body) if length is None else length))
        handler.end_headers()
        handler.wfile.write(body)

    return answer
