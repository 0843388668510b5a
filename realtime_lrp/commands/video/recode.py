"""The process behind a `Recoding`: decodes a recording, draws the maps over it, encodes it.

    decode (a thread) -> pending frames and sound, in the order of the file -> draw, encode (main)
    maps from the other process (a thread) ----------------------------------------^

No TensorFlow here. How far decoding runs ahead is bounded by `AHEAD` batches and by `MOST_BYTES`.
"""

import os
import queue
import shutil
import signal
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, suppress

import numpy as np

from realtime_lrp import __version__
from realtime_lrp.commands.video.recoding import (
    ASKED,
    KEPT_FREE,
    Job,
    Map,
    Opened,
    Report,
    Views,
    Written,
)
from realtime_lrp.errors import TransferError
from realtime_lrp.system.channel import Channel, Failed
from realtime_lrp.video.libraries import av
from realtime_lrp.video.reader import TimedFrame, VideoReader
from realtime_lrp.video.region import Region, region_of, resize
from realtime_lrp.video.writer import VideoWriter, verify
from realtime_lrp.view.follow import Follower
from realtime_lrp.view.layout import laid_out
from realtime_lrp.view.overlay import Painter

AHEAD = 3
MOST_BYTES = 2**30
THUMBNAIL_WIDTH = 320


def main() -> None:
    """Does one job and says how it went."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    outgoing = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # what a library prints must not get between the messages
    channel = Channel(sys.stdin.buffer, outgoing, ASKED)
    job: Job = channel.receive()
    maps: queue.Queue[Map] = queue.Queue()
    threading.Thread(target=_listen, args=(channel, job, maps), daemon=True).start()
    try:
        channel.send(_Recoder(job, channel, maps).run())
    except Exception as error:
        channel.send(Failed.by(error))
    os._exit(0)  # decoder threads of a damaged file may never end


def _listen(channel: Channel, job: Job, maps: "queue.Queue[Map]") -> None:
    try:
        while True:
            for one in channel.receive().maps:
                maps.put(one)
    except Exception:  # whoever gave the job is gone, perhaps in the middle of a word
        for part in job.parts:
            shutil.rmtree(part, ignore_errors=True) if part.is_dir() else part.unlink(True)
        os._exit(1)


class _Recoder:
    def __init__(self, job: Job, channel: Channel, maps: "queue.Queue[Map]"):
        self._job, self._channel, self._maps = job, channel, maps
        self._pending: queue.Queue[TimedFrame | av.Packet | BaseException | None] = queue.Queue()
        self._room = threading.Semaphore(0)
        self._reader: VideoReader | None = None
        self._beats, self._all_decoded = 0, False
        self._times: list[float] = []
        self._thumbnails = _Thumbnails(job.thumbnails)
        self._last_word = 0.0

    def run(self) -> Report:
        """Raises what goes wrong."""
        job = self._job
        threading.Thread(target=self._say_alive, daemon=True).start()
        # Never closed: a decoder that is still at work may not bear it, and the process ends.
        self._reader = reader = VideoReader(job.source, job.span)
        threading.Thread(target=self._decode, args=(reader,), daemon=True).start()
        frames, lost, notes = self._encode(reader)
        verify(job.part, frames)
        return Report(
            frames, reader.promised, tuple(self._times), reader.bad_packets, lost,
            tuple(notes), self._thumbnails.kept, tuple(map(float, reader.holes)),
        )  # fmt: skip

    def _decode(self, reader: VideoReader) -> None:
        try:
            for item in self._decoded(reader):
                self._pending.put(item)
            self._pending.put(None)  # the end
        except BaseException as error:
            self._pending.put(error)
        self._all_decoded = True

    def _decoded(self, reader: VideoReader) -> Iterator["TimedFrame | av.Packet"]:
        job, views, count = self._job, [], 0
        region: Region | None = None
        for item in reader.with_sound() if job.sound else reader:
            if not isinstance(item, TimedFrame):
                yield item
                continue
            picture = item.picture
            if job.mirror:
                picture = np.ascontiguousarray(picture[:, ::-1])
            if region is None:
                region = self._begin(reader, picture)
            self._room.acquire()
            self._times.append(float(item.pts * reader.time_base))
            yield TimedFrame(picture, item.pts, item.duration)
            if count % job.stride == 0:
                views.append(region.extract(picture))
            count += 1
            if len(views) == self._batch:
                self._send(views)
        self._send(views)

    def _begin(self, reader: VideoReader, picture: np.ndarray) -> Region:
        job, size = self._job, picture.shape[:2]
        room = min(AHEAD * job.batch * job.stride, max(2, MOST_BYTES // picture.nbytes))
        # Never so large that frames without a view on its way fill the room: all would wait.
        self._batch = min(job.batch, max(1, room // (2 * job.stride)))
        for _ in range(room):
            self._room.release()
        self._channel.send(Opened(size, reader.frames))
        return region_of(size, job.size, job.fit)

    def _send(self, views: list[np.ndarray]) -> None:
        if views:
            times, self._times = self._times, []
            self._channel.send(Views(np.stack(views), tuple(times)))
            views.clear()

    def _encode(self, reader: VideoReader) -> tuple[int, int, list[str]]:
        """Draws and writes every frame, and the sound as it comes between them."""
        job, drawn, frames, early = self._job, _Drawn(self._job, self._maps), 0, []
        with ExitStack() as stack:
            writer, notes = None, []
            while (item := self._pending.get()) is not None:
                if isinstance(item, BaseException):
                    raise item
                if not isinstance(item, TimedFrame):
                    writer.sound(item) if writer else early.append(item)
                    continue
                if writer is None:
                    writer = stack.enter_context(self._writer(reader))
                    notes = writer.add_sound(reader.sound) if job.sound else []
                result = drawn(frames, item.picture)
                writer.write(result, item.pts, item.duration)
                for packet in early:
                    writer.sound(packet)
                early = []
                self._room.release()
                frames += 1
                self._thumbnails.see(float(item.pts * reader.time_base), result)
                self._written(frames)
        return frames, writer.lost_sound if writer else 0, notes

    def _writer(self, reader: VideoReader) -> VideoWriter:
        job = self._job
        comment = "\n".join(filter(None, (reader.metadata.get("comment"), job.note)))
        kept = {
            key: value
            for key, value in reader.metadata.items()
            if key.lower() in ("title", "artist", "date", "creation_time", "location", "copyright")
        }
        return VideoWriter(
            job.part, job.container, reader.fps, reader.time_base,
            codec=job.codec, quality=job.quality, colour=reader.colour, aspect=reader.aspect,
            metadata={**kept, "comment": comment, "encoder": f"realtime_lrp {__version__}"},
        )  # fmt: skip

    def _written(self, frames: int) -> None:
        self._beats += 1
        now = time.monotonic()
        if now - self._last_word > 0.2:
            self._last_word = now
            self._channel.send(Written(frames))
            free = shutil.disk_usage(self._job.part.parent).free
            if free < KEPT_FREE:
                raise TransferError(
                    f"The disk of {str(self._job.part.parent)!r} is full ({free >> 20} MiB are "
                    "free). Nothing is left of the unfinished file; make room and start again."
                )

    def _say_alive(self) -> None:
        """A word each second: while frames are decoded, and until the file is whole after that."""
        before = -1
        with suppress(OSError, ValueError):
            while True:
                beats = self._beats + (self._reader.packets if self._reader else 0)
                if self._all_decoded or beats != before:
                    before = beats
                    self._channel.send(Written(0))
                time.sleep(1)


class _Drawn:
    """Every frame with its map, or with that of the last explained frame, carried along."""

    def __init__(self, job: Job, maps: "queue.Queue[Map]"):
        self._job, self._maps = job, maps
        self._painter = Painter(job.colormap, job.opacity, job.smoothing)
        self._follower: Follower | None = None

    def __call__(self, number: int, picture: np.ndarray) -> np.ndarray:
        job = self._job
        if self._follower is None or number % job.stride == 0:
            newest = self._maps.get()
            region = region_of(picture.shape[:2], job.size, job.fit)
            overlay = self._painter(newest.strength, newest.scale, region.box, region.inner)
            self._line = newest.line
            self._follower = Follower(picture, [overlay]) if job.stride > 1 else None
        else:
            (overlay,) = self._follower(picture)
        return laid_out(picture, overlay, self._line, job.layout)


class _Thumbnails:
    """Small pictures of the result, evenly spaced, `least` to twice as many."""

    def __init__(self, least: int):
        self._least, self._step, self._count = least, 1, 0
        self.kept: list[tuple[float, np.ndarray]] = []

    def see(self, seconds: float, picture: np.ndarray) -> None:
        if self._least and self._count % self._step == 0:
            rows = round(picture.shape[0] * THUMBNAIL_WIDTH / picture.shape[1])
            self.kept.append((seconds, resize(picture, (max(1, rows), THUMBNAIL_WIDTH))))
            if len(self.kept) == 2 * self._least:
                self.kept, self._step = self.kept[::2], 2 * self._step
        self._count += 1


if __name__ == "__main__":
    main()
