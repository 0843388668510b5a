"""Workers as Ray's actors: on this machine, or on the nodes of a running cluster.

The only file that imports Ray. A plain actor for each worker, and not Ray Data: that streams blocks
of rows through a function and keeps no state of what is done, while here a part has to be made
again after any loss, drawn where it was explained, and joined in order.
"""

import atexit
import functools
import logging
import os
import re
import secrets
import shutil
import socket
import tempfile
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import psutil

from realtime_lrp.commands.video.archive.worker import Worker
from realtime_lrp.errors import UnavailableError, UsageError, first_line, masked
from realtime_lrp.system.atomic import runs
from realtime_lrp.system.signals import UninterruptedCalls, stops_unchanged

PREFIX = "rlrp-ray-"
"""How the name of Ray's temporary folder begins; short, as names of sockets are limited."""

OBJECTS = 512 << 20
"""Memory for what is on its way from workers to the job, in bytes."""

ADDRESS = re.compile(r"[^/\s]+:\d{1,5}")

GET_S = 120.0
"""A worker that needs longer to hand over what it has is given up, in seconds."""

CONNECT_S = 5.0
"""Maximum wait for the address of a cluster, in seconds."""

NODE, NODE_S = "ray.io/node-id", 10.0
"""Ray's name for the label of each machine; maximum wait for that of a worker's, in seconds."""

CLOSING_S = 2.0
"""Maximum wait for killed processes of Ray, in seconds."""

MISSING = (
    '--workers and --ray need Ray, which is not installed. Run: pip install "realtime-lrp[cluster]"'
)

log = logging.getLogger(__name__)


class WorkerLostError(Exception):
    """A worker, or its whole machine, is gone."""


@dataclass(frozen=True)
class Share:
    """What a worker gets.

    Attributes:
      cpus: processor cores, for Ray.
      gpus: GPUs, for Ray.
      threads: how many threads it computes with.
    """

    cpus: float
    gpus: float
    threads: int


@functools.cache
def _token() -> str:
    """The token of clusters that this process starts: Ray keeps the first one that it is given."""
    return secrets.token_hex(32)


class Cluster:
    """Ray, started for this job or joined.

    Args:
      address: of a running cluster, or "auto"; None starts Ray on this machine.

    Attributes:
      local: whether it runs on this machine for this job only.

    Raises:
      UsageError: this is no address.
      UnavailableError: Ray is not installed, cannot be started, or there is no such cluster.
    """

    def __init__(self, address: str | None):
        if address is not None and address != "auto" and not ADDRESS.fullmatch(address):
            raise UsageError(f"Expected HOST:PORT or auto for --ray. Received {masked(address)!r}.")
        if find_spec("ray") is None:
            raise UnavailableError(MISSING)
        self.local = address is None
        self._folder: Path | None = None
        os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
        if self.local:  # nobody else on this machine may send it work; read when Ray is imported
            os.environ["RAY_AUTH_MODE"] = "token"
            os.environ.setdefault("RAY_AUTH_TOKEN", _token())
        self._ray: Any = None
        self._excluded: set[str] = set()
        self._uninterrupted = UninterruptedCalls()
        try:
            if address is not None:
                _check_listens(address)
            self._uninterrupted(lambda: self._start(address))
        except (ConnectionError, RuntimeError, ValueError, OSError, TimeoutError) as error:
            self.close()
            if self.local:
                raise UnavailableError(f"Ray cannot be started ({first_line(error)}).") from error
            raise UnavailableError(
                f"There is no Ray cluster at {masked(str(address))!r} ({first_line(error)}). "
                "Start one with 'ray start --head', or use --workers N on this machine."
            ) from error
        except BaseException:
            self.close()
            raise

    def _start(self, address: str | None) -> None:
        import ray

        self._ray = ray
        atexit.unregister(ray.shutdown)  # `close` does that
        quiet = {"log_to_driver": False, "logging_level": logging.ERROR}
        if address is not None:
            self._ray.init(address=address, **quiet)
            return
        _remove_abandoned()
        self._folder = Path(tempfile.mkdtemp(prefix=f"{PREFIX}{os.getpid()}-"))
        self._ray.init(
            address="local", include_dashboard=False, num_cpus=cores(),
            object_store_memory=OBJECTS, _node_ip_address="127.0.0.1",
            _temp_dir=str(self._folder), **quiet,
        )  # fmt: skip

    def resources(self) -> tuple[list[int], int]:
        """How many processor cores each machine has, and how many GPUs all of them have."""
        nodes = [node["Resources"] for node in self._ray.nodes() if node["Alive"]]
        cpus = [int(found.get("CPU", 0)) for found in nodes]
        return cpus, int(sum(found.get("GPU", 0) for found in nodes))

    def may_be_waiting(self, share: Share, workers: int) -> bool:
        """Whether workers may not have begun because no machine has room for them yet.

        Args:
          share: what each gets.
          workers: how many there are, with those that have not begun.
        """
        if self.local:
            return False
        nodes = [node["Resources"] for node in self._ray.nodes() if node["Alive"]]
        free = self._ray.available_resources()
        wanted = {"CPU": share.cpus, "GPU": share.gpus}
        if not any(all(one.get(kind, 0) >= wanted[kind] for kind in wanted) for one in nodes):
            return True
        used = {kind: sum(one.get(kind, 0) for one in nodes) - free.get(kind, 0) for kind in wanted}
        return any(used[kind] > wanted[kind] * workers + 0.01 for kind in wanted)  # by others

    def exclude_machine(self, worker: Any) -> str:
        """Begins no more workers on the machine of this one, which must be alive.

        Returns:
          The machine's name; "" if it is unknown, or the only one.
        """
        if self.local:
            return ""
        try:
            with stops_unchanged():
                found = self._ray.get(worker.__ray_call__.remote(_node_of), timeout=NODE_S)
        except self._ray.exceptions.RayError:
            return ""
        node, name = found
        self._excluded.add(node)
        return str(name)

    def room(self, share: Share) -> int:
        """How many workers the machines hold that are not excluded, if nobody else uses them.

        0 where the job runs on this machine only.
        """
        if self.local:
            return 0
        both = (("CPU", share.cpus), ("GPU", share.gpus))
        wanted = [(kind, amount) for kind, amount in both if amount]
        nodes = [one for one in self._ray.nodes() if one["Alive"]]
        return sum(
            int(min(one["Resources"].get(kind, 0) / amount for kind, amount in wanted) + 0.01)
            for one in nodes if one["NodeID"] not in self._excluded
        )  # fmt: skip

    def new_worker(self, share: Share, memory: int) -> Any:
        """Begins a worker; a machine with enough room for it is found by Ray.

        Args:
          share: what it gets.
          memory: how much it takes, in bytes, 0 if unknown; only counted in a joined cluster.
        """
        excluded = sorted(self._excluded)
        made = self._ray.remote(Worker).options(
            num_cpus=share.cpus, num_gpus=share.gpus, max_concurrency=4, max_restarts=0,
            **({"memory": memory} if memory and not self.local else {}),
            **({"label_selector": {NODE: f"!in({','.join(excluded)})"}} if excluded else {}),
        )  # fmt: skip
        base = str(self._folder) if self._folder else None  # removed with it
        return made.remote(share.threads, logging.getLogger().level, base)

    def call(self, worker: Any, method: str, *arguments: Any) -> Any:
        """Begins to call a method of a worker; gives what `wait` and `get` take."""
        return getattr(worker, method).remote(*arguments)

    def wait(self, calls: Sequence[Any], timeout_s: float) -> list[Any]:
        """Waits until at least one call has ended; gives those that have."""
        with stops_unchanged():
            done, _ = self._ray.wait(list(calls), num_returns=1, timeout=timeout_s)
            if done:
                done, _ = self._ray.wait(list(calls), num_returns=len(calls), timeout=0)
        return list(done)

    def get(self, call: Any) -> Any:
        """What a call has returned; waits for it.

        Raises:
          WorkerLostError: the worker is gone.
          UnavailableError: this package is not installed where the worker should run.
        """
        errors = self._ray.exceptions
        try:
            with stops_unchanged():
                return self._ray.get(call, timeout=GET_S)
        except errors.RayError as error:
            text = str(error)
            if "ModuleNotFoundError" in text or "No module named" in text:
                raise UnavailableError(
                    "A node of the Ray cluster lacks this package. Install realtime-lrp[cluster] "
                    "of the same version on every node."
                ) from error
            raise WorkerLostError(first_line(error)) from error

    def end_worker(self, worker: Any) -> None:
        """Ends a worker at once."""
        with suppress(Exception):
            self._ray.kill(worker)

    def close(self) -> None:
        """Leaves the cluster; ends it if it was started for this job."""
        name = self._folder.name if self._folder else None
        processes = _processes(name) if name else []
        try:
            if self._ray and not self._uninterrupted.busy:
                with suppress(Exception):
                    self._uninterrupted(self._ray.shutdown)
        finally:
            self._uninterrupted.close()
            if self._folder and name:
                _kill([*processes, *_processes(name)])
                shutil.rmtree(self._folder, ignore_errors=True)


def _node_of(worker: Any) -> tuple[str, str]:
    """Runs in a worker: Ray's number of its machine, and the machine's name."""
    import ray

    return ray.get_runtime_context().get_node_id(), socket.gethostname()


def _processes(named: str) -> list[psutil.Process]:
    """The processes of Ray below this one.

    Args:
      named: what stands in the command lines of those that Ray starts first.
    """
    found = []
    for child in psutil.Process().children(recursive=True):
        with suppress(psutil.Error):
            if any(named in word for word in child.cmdline()):
                found += [child, *child.children(recursive=True)]
    return found


def _kill(processes: list[psutil.Process]) -> None:
    """Kills what Ray has not ended in time, or not at all as it was starting."""
    for process in processes:
        with suppress(psutil.Error):
            process.kill()  # not another one that has got its number
    psutil.wait_procs(processes, CLOSING_S)


def _check_listens(address: str) -> None:
    """Refuses an address at which nothing listens, for which Ray would wait two minutes.

    Raises:
      ConnectionError: nothing does.
    """
    if address == "auto":
        return
    host, _, port = address.rpartition(":")
    try:
        socket.create_connection((host.strip("[]"), int(port)), CONNECT_S).close()
    except (OSError, OverflowError) as error:
        raise ConnectionError(getattr(error, "strerror", None) or str(error)) from None


def cores() -> int:
    """How many processor cores this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def share_of(workers: int, cpus: Sequence[int], gpus: int) -> Share:
    """What each of so many workers gets: as many cores as there are for all of them.

    Args:
      workers: how many there are.
      cpus: the cores of each machine.
      gpus: how many all machines have.
    """
    gpu = min(1.0, gpus / workers)
    for threads in range(max(cpus, default=1), 0, -1):
        if sum(count // threads for count in cpus) >= workers:
            return Share(threads, gpu, threads)
    return Share(sum(cpus) / workers / 2, gpu, 1)  # more workers than cores


def _remove_abandoned() -> None:
    """Removes the folders of runs that were killed; their Ray has ended with them."""
    for folder in Path(tempfile.gettempdir()).glob(f"{PREFIX}*"):
        if not runs(folder.name.removeprefix(PREFIX).split("-")[0]):
            shutil.rmtree(folder, ignore_errors=True)
