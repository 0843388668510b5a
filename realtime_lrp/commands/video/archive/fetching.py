"""Copies what a worker has made to where the job keeps it, over the network or on one machine."""

from pathlib import Path
from typing import Any

from realtime_lrp.commands.video.archive.cluster import Cluster, WorkerLostError
from realtime_lrp.commands.video.archive.orders import Made

CHUNK_BYTES = 32 << 20
"""Files are fetched in pieces of this size."""


def fetch(cluster: Cluster, worker: Any, made: Made, name: str, path: Path) -> None:
    """Copies a file.

    Args:
      cluster: where the worker is.
      worker: has made the file.
      made: what else it has made.
      name: of the file, in the folder there.
      path: where it goes.

    Raises:
      WorkerLostError: the worker is gone, or its file is.
      OSError: the disk is full, or a write failed.
    """
    with path.open("wb") as file:
        for offset in range(0, made.files[name], CHUNK_BYTES):
            call = cluster.call(worker, "read", f"{made.folder}/{name}", offset, CHUNK_BYTES)
            file.write(cluster.get(call))
    if path.stat().st_size != made.files[name]:
        raise WorkerLostError(f"{name} was not fetched completely")
