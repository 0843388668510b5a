"""Ray, started on this machine for one job, or a running cluster that is joined.

The only file that imports Ray. Recordings are plain tasks of Ray's: it finds each one a worker, on
whatever machine has room, and does it again where the worker is lost. A worker calls `make_film`,
with a network that its process keeps; TensorFlow is imported there, not by the job.
"""

import atexit
import logging
import os
import re
import secrets
import shutil
import signal
import socket
import tempfile
from collections.abc import Callable, Sequence
from contextlib import suppress
from importlib.util import find_spec
from logging.handlers import BufferingHandler
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
import psutil

from realtime_lrp.commands.video.task import Outcome, Task, VideoOptions
from realtime_lrp.config import Config
from realtime_lrp.errors import TemporaryError, UnavailableError, UsageError, first_line, masked
from realtime_lrp.system.child import Failed
from realtime_lrp.system.files import remove_abandoned
from realtime_lrp.system.machine import core_count
from realtime_lrp.system.signals import STOPS, stops_unchanged

if TYPE_CHECKING:
    from realtime_lrp.commands.video.overlay import Films

PREFIX = "rlrp-ray-"  # begins Ray's temporary folder; names of sockets are short
OBJECTS = 128 << 20  # memory for what travels between workers and the job, in bytes
RETRIES = 3  # how often Ray does a recording again whose worker was lost
FEWEST_CORES = 4  # cores of a cluster's worker without --workers, unless there are GPUs

ADDRESS = re.compile(r"[^/\s]+:\d{1,5}")

CONNECT_S = 5.0  # maximum wait for a server of Ray's to answer, in seconds
CLOSING_S = 2.0  # maximum wait for killed processes of Ray, in seconds
THREADS = ("TF_NUM_INTRAOP_THREADS", "TF_NUM_INTEROP_THREADS", "OMP_NUM_THREADS")
"""Environment variables that say how many threads libraries compute with."""
MOST_LINES = 10_000  # most lines of a film's log; earlier lines are left out


class Cluster:
    """Ray's workers: of a running cluster if there is an address, else started for this job."""

    def __init__(self, config: Config, options: VideoOptions):
        address = options.ray
        if address is not None and address != "auto" and not ADDRESS.fullmatch(address):
            raise UsageError(f"Expected HOST:PORT or auto for --ray. Received {masked(address)!r}.")
        if find_spec("ray") is None:
            raise UnavailableError(
                "--workers and --ray need Ray, which is not installed. "
                'Run: pip install "realtime-lrp[cluster]"'
            )
        self._config = config
        self._options = options
        self._folder: Path | None = None  # Ray's temporary folder, which goes with this job
        self._ray: Any = None
        os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
        if address is None:  # nobody else on this machine may send it work
            os.environ["RAY_AUTH_MODE"] = "token"
            os.environ.setdefault("RAY_AUTH_TOKEN", secrets.token_hex(32))
        try:
            if address is not None:
                _check_listens(address)
            _with_our_handlers(lambda: self._start(address))
        except BaseException as error:
            self.close()
            if not isinstance(error, Exception):  # which Ray raises where its start takes too long
                raise
            if address is None:
                raise UnavailableError(f"Ray cannot be started ({first_line(error)}).") from error
            raise UnavailableError(
                f"There is no Ray cluster at {masked(address)!r} ({first_line(error)}). "
                "Start one with 'ray start --head', or use --workers N on this machine."
            ) from error

    def _start(self, address: str | None) -> None:
        import ray

        self._ray = ray
        atexit.unregister(ray.shutdown)  # `close` does that
        quiet = {"log_to_driver": False, "logging_level": logging.ERROR}
        if address is not None:
            ray.init(address=address, **quiet)
        else:
            remove_abandoned(PREFIX)
            self._folder = Path(tempfile.mkdtemp(prefix=f"{PREFIX}{os.getpid()}-"))
            ray.init(
                address="local", include_dashboard=False, num_cpus=core_count(),
                object_store_memory=OBJECTS, _node_ip_address="127.0.0.1",
                _temp_dir=str(self._folder), **quiet,
            )  # fmt: skip
        context = ray.get_runtime_context()
        self._node = context.get_node_id()
        self._head = context.gcs_address
        nodes = [node["Resources"] for node in ray.nodes() if node["Alive"]]
        cpus = [int(found.get("CPU", 0)) for found in nodes]
        gpus = int(sum(found.get("GPU", 0) for found in nodes))
        self.count = self._options.workers or gpus or max(1, sum(cpus) // FEWEST_CORES)
        self._share = share_of(self.count, cpus, gpus)

    def begin(self, task: Task) -> Any:
        cpus, gpus, threads = self._share
        remote = self._ray.remote(make_film).options(
            num_cpus=cpus, num_gpus=gpus, max_retries=RETRIES
        )
        here = Path.cwd(), self._folder, logging.getLogger().level
        return remote.remote(self._config, self._options, task, threads, *here)

    def wait(self, calls: list[Any], timeout_s: float) -> list[Any]:
        """Waits until at least one call has ended; gives those that have."""
        with stops_unchanged():
            done, _ = self._ray.wait(calls, num_returns=1, timeout=timeout_s)
        if done:
            return list(done)
        try:  # Ray would wait for ever
            _check_listens(self._head)
            nodes = {node["NodeID"]: node["Alive"] for node in self._ray.nodes()}
            why = "" if nodes.get(self._node) else "its process on this machine is gone"
        except OSError as error:
            why = str(error)
        if why:
            raise TemporaryError(
                f"Ray has ended ({why}). Start again with --resume: finished films are kept."
            )
        return []

    def get(self, call: Any) -> Outcome:
        try:
            with stops_unchanged():
                return self._ray.get(call)
        except self._ray.exceptions.RayError as error:
            text = str(error)
            if "ModuleNotFoundError" in text or "No module named" in text:
                raise UnavailableError(
                    "A node of the Ray cluster lacks this package. Install realtime-lrp[cluster] "
                    "of the same version on every node."
                ) from error
            raise TemporaryError(
                f"The recording was lost with its worker {1 + RETRIES} times "
                f"({first_line(error)}). Look at the memory of the machines, then start again with "
                "--resume."
            ) from error

    def close(self) -> None:
        """Leaves the cluster; ends it if it was started for this job."""
        processes = self._processes()
        try:
            if self._ray:
                with suppress(Exception):
                    _with_our_handlers(self._ray.shutdown)
        finally:
            if self._folder:
                processes += self._processes()  # what Ray has not ended in time, or while it began
                for process in processes:
                    with suppress(psutil.Error):
                        process.kill()  # not another one that has got its number
                psutil.wait_procs(processes, CLOSING_S)
                shutil.rmtree(self._folder, ignore_errors=True)

    def _processes(self) -> list[psutil.Process]:
        """The processes that were started for this job, and all below them."""
        found: list[psutil.Process] = []
        if self._folder:
            for child in psutil.Process().children(recursive=True):
                with suppress(psutil.Error):
                    if any(self._folder.name in word for word in child.cmdline()):
                        found += [child, *child.children(recursive=True)]
        return found


def _with_our_handlers(call: Callable[[], None]) -> None:
    """Calls what sets handlers of its own for signals; ours are back afterwards."""
    handlers = {number: signal.getsignal(number) for number in STOPS}
    try:
        with stops_unchanged():
            call()
    except SystemExit as stop:
        if stop.code == signal.SIGTERM:  # by a handler of Ray's
            raise SystemExit(128 + signal.SIGTERM) from None
        raise
    finally:
        for number, handler in handlers.items():
            if handler is not None:  # it was set from Python
                signal.signal(number, handler)


def _check_listens(address: str) -> None:
    """Refuses an address at which nothing listens, for which Ray would wait two minutes."""
    if address == "auto":
        return
    host, _, port = address.rpartition(":")
    try:
        socket.create_connection((host.strip("[]"), int(port)), CONNECT_S).close()
    except (OSError, OverflowError) as error:
        raise ConnectionError(getattr(error, "strerror", None) or str(error)) from None


def share_of(workers: int, cpus: Sequence[int], gpus: int) -> tuple[float, float, int]:
    """The cores, GPUs and threads of each worker: the most that all can have."""
    gpu = min(1.0, gpus / workers)
    for threads in range(max(cpus, default=1), 0, -1):
        if sum(count // threads for count in cpus) >= workers:
            return threads, gpu, threads
    return sum(cpus) / workers / 2, gpu, 1  # more workers than cores


_kept: dict[str, "Films"] = {}  # this process's network, by its settings


def make_film(
    config: Config, options: VideoOptions, task: Task, threads: int, cwd: Path,
    temporary: Path | None, level: int,
) -> Outcome:  # fmt: skip
    """Makes a film; relative paths count from `cwd`. Says what was logged at this level."""
    for name in THREADS:  # read when TensorFlow is imported
        os.environ[name] = str(threads)
    with suppress(OSError):  # another machine may lack it
        os.chdir(cwd)
    if temporary:
        tempfile.tempdir = str(temporary)
    ours = logging.getLogger("realtime_lrp")
    lines = BufferingHandler(MOST_LINES)
    logging.getLogger().setLevel(level)
    ours.addHandler(lines)
    wanted = f"{config.model_dump_json()} {options.exact} {options.sidecar}"
    try:
        if wanted not in _kept:
            from realtime_lrp.commands.video.overlay import Films

            _kept.clear()
            _kept[wanted] = Films(config, options)
        outcome = _kept[wanted].make(task)
    except Exception as error:
        outcome = Outcome(error=error, for_all=True)
    finally:
        ours.removeHandler(lines)
    outcome.log = [record.getMessage() for record in lines.buffer]
    if isinstance(outcome.error, Exception):
        outcome.error = Failed.by(outcome.error)
    if outcome.report:
        outcome.report = msgspec.structs.replace(outcome.report, thumbnails=[])
    return outcome
