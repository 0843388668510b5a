"""One recording in the hands of a child process, which decodes, draws and encodes it.

A file that makes a decoder crash or hang takes that process with it and nothing else. Only what the
network sees of a picture, and the map that it computes, travels between the two, in the messages
below. `Recoding` is the parent's side, `Recoder` the child's, which has no TensorFlow:

    decode (a thread) -> pending frames and sound, in the order of the file -> draw, encode (main)
    maps from the parent (a thread) -------------------------------------------^

`AHEAD` and `MOST_BYTES` limit how far decoding runs ahead.
"""

import queue
import shutil
import threading
from collections.abc import Iterator, Sequence
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Annotated, Any

import msgspec
import numpy as np

from realtime_lrp.errors import DamagedInputError
from realtime_lrp.system.child import Alive, Channel, Child, module_command, parent_channel, serve
from realtime_lrp.system.files import check_room
from realtime_lrp.system.geometry import Box, FloatBox
from realtime_lrp.video.libraries import av
from realtime_lrp.video.pictures import film_metadata, mirrored
from realtime_lrp.video.reader import Span, TimedFrame, VideoReader
from realtime_lrp.video.region import Region, box_at, region_of, resize
from realtime_lrp.video.writer import VideoWriter, verify
from realtime_lrp.view.look import Look
from realtime_lrp.view.motion import Follower
from realtime_lrp.view.painting import Drawn, Outline, Series, paint
from realtime_lrp.view.tiles import lay_out

AHEAD = 3  # maximum number of batches that are decoded and not yet written
MOST_BYTES = 2**30  # maximum number of bytes of decoded pictures that wait to be drawn
THUMBNAILS = 12  # evenly spaced small pictures of the result that are kept; up to twice as many
THUMBNAIL_WIDTH = 320
ALIVE_EVERY_S = 0.2
STALLED_S = 60.0  # a child that shows no sign of life for this long is killed

Side = Annotated[int, msgspec.Meta(ge=1, le=1 << 20)]
Count = Annotated[int, msgspec.Meta(ge=0, le=1 << 50)]


class RecodingOrder(msgspec.Struct, frozen=True, tag=True):
    """The order to recode a recording."""

    source: Path
    parts: tuple[Path, ...]  # unfinished, the film first; the child removes them without a parent
    container: str
    comment: str
    provenance: str
    span: Span | None
    stride: int  # frames for each map, which is carried along
    batch: int
    layout: str
    codec: str
    quality: int | None
    sound: bool
    size: tuple[int, int]  # rows and columns of the network's input
    fit: str
    region: FloatBox | None  # the network's part of each frame, in fractions
    follows: bool  # whether it follows a thing: then the parent gets whole frames
    mirror: bool
    look: Look

    @property
    def film(self) -> Path:
        return self.parts[0]


class DrawableMap(msgspec.Struct, frozen=True):
    """A map with what else is drawn over a picture: where, a line, and boxes."""

    drawn: Drawn
    box: Box
    line: str
    outlines: tuple[Outline, ...] = ()


class BatchMaps(msgspec.Struct, frozen=True, tag=True):
    """The maps of the pictures of a `PictureBatch`, in their order."""

    maps: tuple[DrawableMap, ...]


class Opened(msgspec.Struct, frozen=True, tag=True):
    """The first frame was decoded."""

    size: tuple[Side, Side]  # rows, columns, upright
    frames: Count  # about how many, or 0
    aspect: Annotated[float, msgspec.Meta(gt=0, lt=1e9)]  # width of a pixel divided by its height


class PictureBatch(msgspec.Struct, frozen=True, tag=True):
    """The region of every stride-th frame, or all of it, which the network is to explain."""

    pictures: np.ndarray  # uint8 [n, rows, columns, 3] RGB
    times: tuple[float, ...]  # seconds, of all frames since the last message of this kind


class Report(msgspec.Struct, frozen=True, tag=True):
    """The film is finished."""

    frames: Count
    expected: Count  # about how many frames there should be if the source ended early, else 0
    times: tuple[float, ...]  # seconds, the frames' after the last `PictureBatch`
    bad_packets: Count
    lost_sound: Count
    notes: tuple[str, ...] = ()
    thumbnails: list[tuple[float, np.ndarray]] = []  # seconds, uint8 [h, w, 3] RGB


class Recoding:
    """A job that is under way; closing it ends its process.

    Where a write failed there, an `OSError` is raised. `written` frames are written so far.
    """

    report: Report  # once `batches` has ended

    def __init__(self, job: RecodingOrder):
        self._job = job
        self._source = str(job.source)
        self.written = 0
        self.child = Child(
            module_command("realtime_lrp.commands.video.recoding"),
            Opened | PictureBatch | Report,
            on_life=partial(setattr, self, "written"),
        )
        try:
            self._send(job)
            self.opened = self._receive(Opened)
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        self.child.close()

    def batches(self) -> Iterator[PictureBatch]:
        """Yields what is to be explained, until the film is finished; each needs an `answer`."""
        shape = (*(self.opened.size if self._job.follows else self._job.size), 3)
        while isinstance(message := self._receive(PictureBatch, Report), PictureBatch):
            pictures = message.pictures
            if pictures.dtype != np.uint8 or pictures.shape[1:] != shape or not len(pictures):
                raise DamagedInputError(
                    f"{self._source!r} makes the decoder send invalid pictures."
                )
            yield message
        self.report = message

    def answer(self, maps: Sequence[DrawableMap]) -> None:
        """Sends the maps of the oldest `PictureBatch` that has none yet."""
        self._send(BatchMaps(tuple(maps)))

    def _send(self, message: RecodingOrder | BatchMaps) -> None:
        try:
            self.child.send(message)
        except OSError:
            while True:  # raises what the child had to say before it ended
                self._receive(Opened, PictureBatch, Report)

    def _receive(self, *types: type[msgspec.Struct]) -> Any:
        return self.child.expect(self._source, *types, silent_s=STALLED_S)


class Recoder:
    """Makes the film of an order; its threads report what ends them to the parent."""

    _job: RecodingOrder
    _reader: VideoReader | None = None

    def __init__(self, channel: Channel):
        self._channel = channel
        self._pending: queue.SimpleQueue[TimedFrame | av.Packet[Any] | None] = queue.SimpleQueue()
        """Frames and sound in the order of the file, None at their end."""
        self._maps: queue.SimpleQueue[DrawableMap] = queue.SimpleQueue()
        self._room = threading.Semaphore(0)
        self._frames = 0
        self._all_decoded = False
        self._ended = threading.Event()
        self._times: list[float] = []
        self._series = Series()
        self._follower: Follower | None = None

    def take(self, message: RecodingOrder | BatchMaps) -> bool:
        """Queues the maps of a batch."""
        if isinstance(message, BatchMaps):
            for drawable in message.maps:
                self._maps.put(drawable)
        return isinstance(message, BatchMaps)

    def remove_parts(self) -> None:
        """Removes what is unfinished."""
        for part in self._job.parts:
            shutil.rmtree(part, ignore_errors=True) if part.is_dir() else part.unlink(True)

    def run(self, job: RecodingOrder) -> Report:
        self._job = job
        threading.Thread(target=self._tell_progress, daemon=True).start()
        try:
            # Not closed: that may hang while a decoder is at work, and the process ends anyway.
            self._reader = reader = VideoReader(job.source, job.span, square=False)
            threading.Thread(target=self._decode, args=(reader,), daemon=True).start()
            report = self._encode(reader)
            verify(job.film, self._frames)
        finally:
            self._ended.set()
        return report

    def _decode(self, reader: VideoReader) -> None:
        with self._channel.reporting():
            try:
                for item in self._decoded(reader):
                    self._pending.put(item)
            except OSError as error:  # failed writes happen in the other thread
                source = str(self._job.source)
                why = error.strerror or error
                raise DamagedInputError(f"{source!r} cannot be read to its end ({why}).") from error
            self._pending.put(None)
            self._all_decoded = True

    def _decoded(self, reader: VideoReader) -> Iterator["TimedFrame | av.Packet[Any]"]:
        job = self._job
        batch: list[np.ndarray] = []
        count = length = 0
        region: Region | None = None
        for item in reader.items(reader.sound if job.sound else []):
            if not isinstance(item, TimedFrame):
                yield item
                continue
            picture = mirrored(item.picture, job.mirror)
            if region is None:
                size = picture.shape[:2]
                aspect = float(reader.aspect)
                room = min(AHEAD * job.batch * job.stride, max(2, MOST_BYTES // picture.nbytes))
                # A batch must fill before the room does, or all would wait for each other.
                length = min(job.batch, max(1, room // (2 * job.stride)))
                self._room.release(room)
                self._channel.send(Opened(size, reader.frames, aspect))
                within = box_at(job.region, size) if job.region else None
                region = region_of(size, job.size, job.fit, aspect, within)
            self._room.acquire()
            self._times.append(float(item.pts * reader.time_base))
            yield TimedFrame(picture, item.pts, item.duration)
            if count % job.stride == 0:
                batch.append(picture if job.follows else region.extract(picture))
            count += 1
            if len(batch) == length:
                self._send(batch)
        if batch:
            self._send(batch)

    def _send(self, batch: list[np.ndarray]) -> None:
        times = self._times
        self._times = []
        self._channel.send(PictureBatch(np.stack(batch), tuple(times)))
        batch.clear()

    def _encode(self, reader: VideoReader) -> Report:
        """Writes frames and sound until all are written."""
        job = self._job
        items = iter(self._pending.get, None)
        early = []  # sound; it can be written after the first frame
        while not isinstance(first := next(items), TimedFrame):
            early.append(first)
        thumbnails: list[tuple[float, np.ndarray]] = []
        step = 1
        with VideoWriter(
            job.film, job.container, reader.fps, reader.time_base, codec=job.codec,
            quality=job.quality, colour=reader.colour, aspect=reader.aspect,
            metadata=film_metadata(reader.metadata, job.comment), description=job.provenance,
        ) as writer:  # fmt: skip
            notes = writer.add_sound(reader.sound) if job.sound else []
            for item in chain([first], early, items):
                if not isinstance(item, TimedFrame):
                    writer.sound(item)
                    continue
                result = self._drawn(item.picture)
                writer.write(result, item.pts, item.duration)
                self._room.release()
                if self._frames % step == 0:
                    rows, columns, _ = result.shape
                    size = round(rows * THUMBNAIL_WIDTH / (columns * float(reader.aspect)))
                    small = resize(result, (max(1, size), THUMBNAIL_WIDTH))
                    thumbnails.append((float(item.pts * reader.time_base), small))
                    if len(thumbnails) == 2 * THUMBNAILS:
                        thumbnails = thumbnails[::2]
                        step = 2 * step
                self._frames += 1
                check_room(job.film.parent)
        return Report(
            self._frames, reader.expected, tuple(self._times), reader.bad_packets,
            writer.lost_sound, tuple(notes), thumbnails,
        )  # fmt: skip

    def _drawn(self, picture: np.ndarray) -> np.ndarray:
        """Draws a frame's own map, or the last explained frame's, carried along."""
        job = self._job
        if self._follower is None or self._frames % job.stride == 0:
            newest = self._maps.get()
            self._line = newest.line
            painted = paint(
                picture, [newest.drawn], job.look, newest.box, newest.outlines, self._series
            )
            self._follower = Follower(painted) if job.stride > 1 else None
        else:
            painted = self._follower(picture)
        return lay_out(painted, self._line, job.layout)

    def _tell_progress(self) -> None:
        """Sends how many frames are written, while anything is read or written.

        By it the parent tells slow work from a decoder that hangs; once all is decoded none does.
        """
        before = None
        with self._channel.reporting():
            while not self._ended.is_set():
                done = self._frames, self._reader.packets if self._reader else 0
                if self._all_decoded or done != before:
                    self._channel.send(Alive(self._frames))
                before = done
                self._ended.wait(ALIVE_EVERY_S)


def main() -> None:
    """The child."""
    channel = parent_channel(RecodingOrder | BatchMaps)
    recoder = Recoder(channel)
    serve(channel, recoder.run, recoder.take, recoder.remove_parts)


if __name__ == "__main__":
    main()
