"""Servers over HTTP: one that answers what a test wants, and an IP camera that dies and stalls."""

import itertools
import socket
import struct
import threading
import time
from contextlib import suppress

import cv2
import numpy as np

OK = b"HTTP/1.1 200 OK\r\n"
MIXED = b"Content-Type: multipart/x-mixed-replace; boundary=frame\r\n"


def part(jpeg, length=None):
    """A picture of a stream that says it has `length` bytes."""
    size = len(jpeg) if length is None else length
    head = f"--frame\r\nContent-Type: image/jpeg\r\nContent-Length: {size}\r\n\r\n"
    return head.encode() + jpeg + b"\r\n"


class Server:
    """Sends everybody what `answer` yields; cuts off whom it is sending to when that changes."""

    def __init__(self, answer, host="127.0.0.1", port=0):
        self.answer, self.connections = answer, 0
        self._listening = socket.create_server((host, port))
        self.port = self._listening.getsockname()[1]
        self.url = f"http://{host}:{self.port}/camera.mjpg"
        self._threads = [threading.Thread(target=self._serve, daemon=True)]
        self._threads[0].start()

    def __enter__(self):
        return self

    def __exit__(self, *exception):
        self.stop()

    def stop(self):
        self.answer = None
        with suppress(OSError):
            self._listening.shutdown(socket.SHUT_RDWR)
        self._listening.close()
        for thread in self._threads:
            thread.join(2)

    def _serve(self):
        with suppress(OSError):
            while True:
                connection = self._listening.accept()[0]
                self.connections += 1
                thread = threading.Thread(target=self._send, args=(connection,), daemon=True)
                thread.start()
                self._threads.append(thread)

    def _send(self, connection):
        answer = self.answer
        with connection, suppress(OSError):
            connection.settimeout(5)
            connection.recv(4096)
            for piece in answer() if answer else ():
                if self.answer is not answer:
                    reset = struct.pack("ii", 1, 0)
                    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, reset)
                    return
                connection.sendall(piece)
            connection.shutdown(socket.SHUT_WR)


class MjpegServer(Server):
    """A camera that films a wandering disc; while the event `stalled` is set nothing is sent."""

    def __init__(self, fps=30, size=(240, 320), host="127.0.0.1", port=0):
        self._fps, self._size, self.sent = fps, size, 0
        self.stalled = threading.Event()
        super().__init__(self._film, host, port)

    def _film(self):
        yield OK + MIXED + b"\r\n"
        begin = time.monotonic()
        for count in itertools.count(1):
            while self.stalled.is_set():
                yield b""
                time.sleep(0.01)
            yield part(self._picture(count))
            self.sent += 1
            time.sleep(max(0.0, begin + count / self._fps - time.monotonic()))

    def _picture(self, count):
        picture = np.full((*self._size, 3), 40, np.uint8)
        centre = int(self._size[1] * (0.5 + 0.3 * np.sin(count / 20))), self._size[0] // 2
        cv2.circle(picture, centre, self._size[0] // 6, (30, 60, 230), -1)
        return cv2.imencode(".jpg", picture)[1].tobytes()
