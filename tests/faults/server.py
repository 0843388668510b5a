"""An MJPEG server over HTTP, like that of an IP camera, that can die and come back."""

import threading
import time
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import cv2
import numpy as np


class MjpegServer:
    """Serves a wandering disc on this machine until it is stopped.

    Attributes:
      fps: frames a second.
    """

    def __init__(self, fps=30, size=(240, 320), port=0, broken_every=None, host="127.0.0.1"):
        self.fps, self.size, self.sent, self.connections = fps, size, 0, 0
        self.stalled = threading.Event()
        self._broken_every = broken_every
        self._alive = threading.Event()
        self._alive.set()
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self):
                with suppress(OSError):
                    outer._stream(self)

            def log_message(self, *words):
                pass

        self._server = ThreadingHTTPServer((host, port), Handler)
        self._server.daemon_threads = True
        self.port = self._server.server_address[1]
        self.url = f"http://{host}:{self.port}/camera.mjpg"
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def stop(self):
        """Ends every connection and closes the port."""
        self._alive.clear()
        self._server.shutdown()
        self._server.server_close()

    def __enter__(self):
        return self

    def __exit__(self, *exception):
        self.stop()

    def _stream(self, handler):
        self.connections += 1
        handler.send_response(200)
        handler.send_header("Content-Type", "multipart/x-mixed-replace; boundary=frame")
        handler.end_headers()
        begin, count = time.monotonic(), 0
        while self._alive.is_set():
            if self.stalled.is_set():
                time.sleep(0.01)
                continue
            data = self._picture(count)
            head = f"--frame\r\nContent-Type: image/jpeg\r\nContent-Length: {len(data)}\r\n\r\n"
            handler.wfile.write(head.encode() + data + b"\r\n")
            count += 1
            self.sent += 1
            time.sleep(max(0.0, begin + count / self.fps - time.monotonic()))

    def _picture(self, count):
        picture = np.full((*self.size, 3), 40, np.uint8)
        centre = int(self.size[1] * (0.5 + 0.3 * np.sin(count / 20))), self.size[0] // 2
        cv2.circle(picture, centre, self.size[0] // 6, (30, 60, 230), -1)
        data = cv2.imencode(".jpg", picture)[1].tobytes()
        broken = self._broken_every and count % self._broken_every == self._broken_every - 1
        return b"no picture at all" if broken else data
