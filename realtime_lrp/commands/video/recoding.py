"""One recording in the hands of a child process, which decodes, draws and encodes it.

A file that makes a decoder crash or hang takes that process with it and nothing else. Only what the
network sees of a picture, and the map that it computes, travels between the two, in the messages
below. `Recoding` is the parent's side, `main` the child's, which has no TensorFlow:

    decode (a thread) -> pending frames and sound, in the order of the file -> draw, encode (main)
    maps from the parent (a thread) -------------------------------------------^

`AHEAD` and `MOST_BYTES` limit how far decoding runs ahead.
"""

import os
import queue
import shutil
import threading
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Annotated, Any, TypeAlias

import msgspec
import numpy as np

from realtime_lrp.errors import DamagedInputError
from realtime_lrp.system.child import Channel, Child, Failed, module_command, parent_channel
from realtime_lrp.system.files import check_room
from realtime_lrp.system.geometry import Box, FloatBox
from realtime_lrp.video.descriptions import film_metadata
from realtime_lrp.video.libraries import av
from realtime_lrp.video.pictures import mirrored
from realtime_lrp.video.reader import Span, TimedFrame, VideoReader
from realtime_lrp.video.region import Region, box_at, region_of, resize
from realtime_lrp.video.writer import VideoWriter, verify
from realtime_lrp.view.look import Look
from realtime_lrp.view.motion import Follower
from realtime_lrp.view.painting import Drawn, Outline, Series, paint
from realtime_lrp.view.tiles import lay_out

AHEAD = 3  # maximum number of batches that are decoded and not yet written
MOST_BYTES = 2**30  # maximum number of bytes of decoded pictures that wait to be drawn
THUMBNAILS = 12
THUMBNAIL_WIDTH = 320
WRITTEN_EVERY_S = 0.2
STALLED_S = 60.0  # a child that shows no sign of life for this long is killed

Side = Annotated[int, msgspec.Meta(ge=1, le=1 << 20)]
Count = Annotated[int, msgspec.Meta(ge=0, le=1 << 50)]


class RecodingOrder(msgspec.Struct, frozen=True, tag=True):
    """The order to recode a recording.

    The film is the first of the unfinished `parts`; the child removes all of them if the parent is
    gone. Every stride-th frame is explained, and its map is carried along to the others. `size` is
    (rows, columns) of the network's input. It sees the `region` of each frame, in fractions; where
    it `follows` a thing, the parent gets whole frames. The look names no colour map but has it.
    """

    source: Path
    parts: tuple[Path, ...]
    container: str
    comment: str
    provenance: str
    span: Span | None
    stride: int
    batch: int
    layout: str
    codec: str
    quality: int | None
    sound: bool
    size: tuple[int, int]
    fit: str
    region: FloatBox | None
    follows: bool
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
    """The first frame was decoded: (rows, columns) upright, about how many frames or 0.

    `aspect` is the width of a pixel divided by its height.
    """

    size: tuple[Side, Side]
    frames: Count
    aspect: Annotated[float, msgspec.Meta(gt=0, lt=1e9)] = 1.0


class PictureBatch(msgspec.Struct, frozen=True, tag=True):
    """Pictures that the network is to explain.

    The pictures, uint8 [n, rows, columns, 3] RGB, are the extracted region of every stride-th
    frame, or all of it; the times, in seconds, belong to all frames since the last message of this
    kind.
    """

    pictures: np.ndarray
    times: tuple[float, ...]


class Written(msgspec.Struct, frozen=True, tag=True):
    """This many frames are written; also shows that the child is alive."""

    frames: Count


class Report(msgspec.Struct, frozen=True, tag=True):
    """The film is finished.

    If the source ended early, `expected` is about how many frames it should have; otherwise 0.
    `times` belong to the frames after the last `PictureBatch`; thumbnails are pairs of seconds and
    uint8 [h, w, 3] RGB.
    """

    frames: Count
    expected: Count
    times: tuple[float, ...]
    bad_packets: Count
    lost_sound: Count
    notes: tuple[str, ...] = ()
    thumbnails: list[tuple[float, np.ndarray]] = []


TO_CHILD = RecodingOrder | BatchMaps
FROM_CHILD = Opened | PictureBatch | Written | Report | Failed


class Recoding:
    """A job that is under way; closing it ends its process.

    Where a write failed there, an `OSError` is raised. `opened` is what is known of the recording,
    `written` how many frames are written so far, `report` what was done, once `batches` has ended.
    """

    report: Report

    def __init__(self, job: RecodingOrder):
        self._job = job
        self._source = str(job.source)
        self.written = 0
        command = module_command("realtime_lrp.commands.video.recoding")
        self._child = Child(command, FROM_CHILD, aside=self._aside)
        try:
            self._send(job)
            self.opened = self._receive(Opened)
        except BaseException:
            self._child.close()
            raise

    def close(self) -> None:
        self._child.close()

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

    @property
    def waiting(self) -> bool:
        """Whether another batch is there already; if not, the child may wait for an answer."""
        return self._child.has_sent

    def answer(self, maps: Sequence[DrawableMap]) -> None:
        """Sends the maps of the oldest `PictureBatch` that has none yet."""
        self._send(BatchMaps(tuple(maps)))

    def _send(self, message: RecodingOrder | BatchMaps) -> None:
        try:
            self._child.send(message)
        except OSError:
            while True:  # raises what the child had to say before it ended
                self._receive(Opened, PictureBatch, Report)

    def _receive(self, *types: type[msgspec.Struct]) -> Any:
        return self._child.expect(self._source, *types, silent_s=STALLED_S)

    def _aside(self, message: Any) -> bool:
        if isinstance(message, Written):
            self.written = max(self.written, message.frames)
            self._child.shows_life()
        return isinstance(message, Written)


Pending: TypeAlias = "TimedFrame | av.Packet | BaseException | None"
"""Frames and sound in their order, None at their end, or the exception that ended a thread."""

Maps: TypeAlias = "queue.SimpleQueue[DrawableMap | BaseException]"
"""The maps of the pictures of all batches in their order, or the exception that ended a thread."""


def main() -> None:
    """Does what the parent asks for and sends the outcome."""
    channel = parent_channel(TO_CHILD)
    job = channel.receive()
    recoder = Recoder(job, channel, queue.SimpleQueue())
    threading.Thread(target=_listen, args=(channel, job, recoder), daemon=True).start()
    try:
        channel.send(recoder.run())
    except BaseException as error:
        with suppress(Exception):  # the parent is gone
            channel.send(Failed.by(error))
    os._exit(0)  # decoder threads of a damaged file may never end


def _listen(channel: Channel, job: RecodingOrder, recoder: "Recoder") -> None:
    """Queues the maps; removes what is unfinished and ends if the parent is gone."""
    try:
        with suppress(EOFError, OSError, ValueError):
            while isinstance(answer := channel.receive(), BatchMaps):
                for drawable in answer.maps:
                    recoder.maps.put(drawable)
    except BaseException as error:
        recoder.fail(error)
        return
    for part in job.parts:
        shutil.rmtree(part, ignore_errors=True) if part.is_dir() else part.unlink(True)
    os._exit(1)


class Recoder:
    """Does a job; `maps` gets one map for each picture of the batches that are sent."""

    def __init__(self, job: RecodingOrder, channel: Channel, maps: Maps):
        self._job = job
        self._channel = channel
        self.maps = maps
        self._pending: queue.SimpleQueue[Pending] = queue.SimpleQueue()
        self._room = threading.Semaphore(0)
        self._reader: VideoReader | None = None
        self._frames = 0
        self._all_decoded = False
        self._ended = threading.Event()
        self._times: list[float] = []
        self._thumbnails = _Thumbnails()

    def run(self) -> Report:
        job = self._job
        threading.Thread(target=self._tell_progress, daemon=True).start()
        try:
            # Not closed: that may hang while a decoder is at work, and the process ends anyway.
            self._reader = reader = VideoReader(job.source, job.span, square=False)
            threading.Thread(target=self._decode, args=(reader,), daemon=True).start()
            lost, notes = self._encode(reader)
            verify(job.film, self._frames)
        finally:
            self._ended.set()
        return Report(
            self._frames, reader.expected, tuple(self._times), reader.bad_packets, lost,
            tuple(notes), self._thumbnails.kept,
        )  # fmt: skip

    def fail(self, error: BaseException) -> None:
        """Makes `run` raise what has ended another thread, whichever queue it waits for."""
        self._pending.put(error)
        self.maps.put(error)

    def _decode(self, reader: VideoReader) -> None:
        try:
            for item in self._decoded(reader):
                self._pending.put(item)
            self._pending.put(None)  # the end
        except OSError as error:  # failed writes happen in the other thread
            source = str(self._job.source)
            why = error.strerror or error
            damaged = DamagedInputError(f"{source!r} cannot be read to its end ({why}).")
            damaged.__cause__ = error
            self.fail(damaged)
        except BaseException as error:
            self.fail(error)
        self._all_decoded = True

    def _decoded(self, reader: VideoReader) -> Iterator["TimedFrame | av.Packet"]:
        job = self._job
        batch = []
        count = 0
        region: Region | None = None
        for item in reader.with_sound() if job.sound else reader:
            if not isinstance(item, TimedFrame):
                yield item
                continue
            picture = mirrored(item.picture, job.mirror)
            if region is None:
                region = self._begin(reader, picture)
            self._room.acquire()
            self._times.append(float(item.pts * reader.time_base))
            yield TimedFrame(picture, item.pts, item.duration)
            if count % job.stride == 0:
                batch.append(picture if job.follows else region.extract(picture))
            count += 1
            if len(batch) == self._batch:
                self._send(batch)
        if batch:
            self._send(batch)

    def _begin(self, reader: VideoReader, picture: np.ndarray) -> Region:
        job = self._job
        size = picture.shape[:2]
        room = min(AHEAD * job.batch * job.stride, max(2, MOST_BYTES // picture.nbytes))
        # A batch must fill before the room does, or all would wait for each other.
        self._batch = min(job.batch, max(1, room // (2 * job.stride)))
        self._room.release(room)
        self._channel.send(Opened(size, reader.frames, float(reader.aspect)))
        within = box_at(job.region, size) if job.region else None
        return region_of(size, job.size, job.fit, float(reader.aspect), within)

    def _send(self, batch: list[np.ndarray]) -> None:
        times = self._times
        self._times = []
        self._channel.send(PictureBatch(np.stack(batch), tuple(times)))
        batch.clear()

    def _encode(self, reader: VideoReader) -> tuple[int, list[str]]:
        """Writes frames and sound; returns how many packets of sound were lost, and changes."""
        job = self._job
        draw = _Drawer(self._job, self.maps)
        early = []
        aspect = 1.0
        with ExitStack() as stack:
            writer = None
            notes = []
            while (item := self._pending.get()) is not None:
                if isinstance(item, BaseException):
                    raise item
                if not isinstance(item, TimedFrame):
                    writer.sound(item) if writer else early.append(item)
                    continue
                if writer is None:
                    writer = stack.enter_context(VideoWriter(
                        job.film, job.container, reader.fps, reader.time_base, codec=job.codec,
                        quality=job.quality, colour=reader.colour, aspect=reader.aspect,
                        metadata=film_metadata(reader.metadata, job.comment),
                        description=job.provenance,
                    ))  # fmt: skip
                    notes = writer.add_sound(reader.sound) if job.sound else []
                    aspect = float(reader.aspect)
                result = draw(self._frames, item.picture)
                writer.write(result, item.pts, item.duration)
                for packet in early:
                    writer.sound(packet)
                early = []
                self._room.release()
                self._frames += 1
                self._thumbnails.add(float(item.pts * reader.time_base), result, aspect)
                check_room(job.film.parent)
        return writer.lost_sound if writer else 0, notes

    def _tell_progress(self) -> None:
        """Sends how many frames are written, at once and while anything is read or written.

        The parent tells slow work by it from a decoder that hangs. Once all is decoded nothing can
        hang any more.
        """
        before = None
        try:
            while not self._ended.is_set():
                done = self._frames, self._reader.packets if self._reader else 0
                if self._all_decoded or done != before:
                    self._channel.send(Written(self._frames))
                before = done
                self._ended.wait(WRITTEN_EVERY_S)
        except BaseException as error:
            self.fail(error)


class _Drawer:
    """Draws the maps: a frame's own, or the last explained frame's, carried along."""

    def __init__(self, job: RecodingOrder, maps: Maps):
        self._job = job
        self._maps = maps
        self._series = Series()
        self._follower: Follower | None = None

    def __call__(self, number: int, picture: np.ndarray) -> np.ndarray:
        job = self._job
        if self._follower is None or number % job.stride == 0:
            newest = self._maps.get()
            if isinstance(newest, BaseException):
                raise newest
            self._line = newest.line
            painted = paint(
                picture, [newest.drawn], job.look, newest.box, newest.outlines, self._series
            )
            self._follower = Follower(painted) if job.stride > 1 else None
        else:
            painted = self._follower(picture)
        return lay_out(painted, self._line, job.layout)


class _Thumbnails:
    """Keeps small pictures of the result, evenly spaced: at most twice `THUMBNAILS`."""

    def __init__(self) -> None:
        self._step = 1
        self._count = 0
        self.kept: list[tuple[float, np.ndarray]] = []

    def add(self, seconds: float, picture: np.ndarray, aspect: float) -> None:
        if self._count % self._step == 0:
            rows = round(picture.shape[0] * THUMBNAIL_WIDTH / (picture.shape[1] * aspect))
            self.kept.append((seconds, resize(picture, (max(1, rows), THUMBNAIL_WIDTH))))
            if len(self.kept) == 2 * THUMBNAILS:
                self.kept = self.kept[::2]
                self._step = 2 * self._step
        self._count += 1


if __name__ == "__main__":
    main()
