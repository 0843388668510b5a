"""Archives on a real Ray while workers, nodes and the job itself are killed: no frame is lost."""

import json
import os
import random
import signal
import socket
import subprocess
import sys
import time
from contextlib import contextmanager, suppress
from pathlib import Path

import av
import media
import psutil
import pytest
from faults import disk

pytestmark = pytest.mark.release

CODE = """
import os, sys
from realtime_lrp.commands.video.archive import cluster, job, watching
watching.HANGS_S = cluster.GET_S = float(os.environ.get("HANGS_S", 120))
job.PART_S = float(sys.argv.pop(1))
hand_out = job.Job._hand_out
def hand_out_to_all(self):
    if self._hiring.newest > 1 and all(one.loaded for one in self.members):
        job.Job._hand_out = hand_out  # from now on, also while a worker waits for a machine
    if not self.parts_known or job.Job._hand_out is hand_out:
        hand_out(self)
if os.environ.get("ALL_BEGIN"):
    job.Job._hand_out = hand_out_to_all
from realtime_lrp.cli import main
main()
"""
SEED = 24


@contextmanager
def job(part_s, *words, **environment):
    """A job in a process of its own; it does not outlive the test."""
    command = [sys.executable, "-c", CODE, str(part_s), "video", *map(str, words)]
    process = subprocess.Popen(
        command, env={**os.environ, **environment}, text=True,
        stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    )  # fmt: skip
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


def workers_below(pid):
    """The processes of Ray's workers below a process."""
    with suppress(psutil.Error):
        for child in psutil.Process(pid).children(recursive=True):
            with suppress(psutil.Error):
                if child.name() == "ray::Worker" or child.name().startswith("ray::Worker."):
                    yield child


@pytest.fixture
def network(tiny_model, tmp_path_factory):
    """Options for the tiny network."""
    labels = tmp_path_factory.mktemp("labels") / "labels.txt"
    labels.write_text("red\ngreen\nblue\nother\n")
    return ("--model", tiny_model, "--preprocess", "none", "--labels", labels)


@pytest.fixture
def long(tmp_path):
    """A recording of 1600 frames with a key frame in every 12, and sound."""
    return media.recording(tmp_path / "long.mp4", 1600, sound="aac", options={"bf": "2", "g": "12"})


def made(path):
    """The exact times and the sums of the frames of a film, and its sound."""
    with av.open(path) as container:
        frames = [
            (frame.pts * frame.time_base, int(frame.to_ndarray(format="yuv420p").sum()))
            for frame in container.decode(video=0)
        ]
    return frames, media.sound_of(path)


def assert_as_by_one_process(run, network, source, film):
    """Frames, sound and sidecar are those that one process makes."""
    alone = film.with_name("alone.mp4")
    words = "--quality", 0, "--sidecar", *network
    assert run("video", source, "-o", alone, *words)[0] == 0
    assert made(film) == made(alone)
    sidecars = [one.with_suffix(".jsonl").read_bytes() for one in (film, alone)]
    assert sidecars[0] == sidecars[1]


def test_twenty_killed_workers_cost_no_frame(run, network, long, tmp_path):
    """Killed by SIGKILL, of two workers, at random moments after three further parts are done."""
    film, chance, kills = tmp_path / "film.mp4", random.Random(SEED), 0
    parts = tmp_path / ".film.mp4.parts"
    words = long, "-o", film, "--workers", 2, "--quality", 0, "--sidecar", *network
    with job(0.5, *words) as process:
        while process.poll() is None and kills < 20:
            done = len(list(parts.glob("0*/part.json")))
            while process.poll() is None and len(list(parts.glob("0*/part.json"))) < done + 3:
                time.sleep(0.05)
            time.sleep(chance.uniform(0, 2))
            if found := list(workers_below(process.pid)):
                with suppress(psutil.Error):
                    chance.choice(found).kill()
                    kills += 1
        _, errors = process.communicate(timeout=600)
        assert process.returncode == 0, errors
    assert kills == 20, kills
    assert_as_by_one_process(run, network, long, film)


def test_stopped_workers_cost_no_frame(run, network, long, tmp_path):
    """Stopped by SIGSTOP, of two workers, at three random moments; each is given up and killed."""
    film, chance, stopped = tmp_path / "film.mp4", random.Random(SEED), []
    parts = tmp_path / ".film.mp4.parts"
    words = long, "-o", film, "--workers", 2, "--quality", 0, "--sidecar", *network
    try:
        with job(0.5, *words, HANGS_S="20") as process:
            while process.poll() is None and len(stopped) < 3:
                done = len(list(parts.glob("0*/part.json")))
                while process.poll() is None and len(list(parts.glob("0*/part.json"))) < done + 3:
                    time.sleep(0.05)
                time.sleep(chance.uniform(0, 2))
                if found := list(workers_below(process.pid)):
                    stopped.append(chance.choice(found))
                    stopped[-1].suspend()
                    while process.poll() is None and stopped[-1].is_running():
                        time.sleep(0.05)
            _, errors = process.communicate(timeout=600)
            assert process.returncode == 0, errors
    finally:
        for one in stopped:
            with suppress(psutil.Error):
                one.kill()
    assert len(stopped) == 3 and errors.count("is lost") >= 3, errors
    assert_as_by_one_process(run, network, long, film)


def test_a_killed_job_goes_on(run, network, long, tmp_path):
    """Killed four times by SIGKILL, started again by the same command; Ray ends with it."""
    film, chance = tmp_path / "film.mp4", random.Random(SEED)
    words = long, "-o", film, "--workers", 2, "--quality", 0, "--sidecar", *network
    parts = tmp_path / ".film.mp4.parts"
    before = 0
    for _ in range(4):
        with job(0.5, *words) as process:
            while process.poll() is None and len(list(parts.glob("0*"))) < before + 6:
                time.sleep(0.05)
            time.sleep(chance.uniform(0, 1))
            process.send_signal(signal.SIGKILL)
        before = len(list(parts.glob("0*/part.json")))
        assert not film.exists()
    assert before >= 20
    with job(0.5, *words) as process:
        assert process.wait(600) == 0
    assert_as_by_one_process(run, network, long, film)
    assert not parts.exists()


@pytest.fixture
def two_nodes():
    """A cluster of two nodes with one core each: (its address, its second node's process)."""
    with nodes_of([]) as started:
        yield started


NODES = """
import sys, time
import ray
ray.init(address=sys.argv[1], log_to_driver=False)
while sum(node["Alive"] for node in ray.nodes()) < int(sys.argv[2]):
    time.sleep(0.2)
"""


def wait_for_nodes(count, address, environment):
    """Waits until a cluster is there and has so many nodes."""
    deadline = time.monotonic() + 120
    host, port = address.split(":")
    while time.monotonic() < deadline:
        with suppress(OSError):
            socket.create_connection((host, int(port)), 5).close()
            break
        time.sleep(0.2)
    command = [sys.executable, "-c", NODES, address, str(count)]
    for _ in range(3):  # the port is open before all else is
        if subprocess.run(command, env=environment, timeout=120).returncode == 0:
            return
    raise TimeoutError(f"no cluster of {count} nodes at {address}")


@contextmanager
def nodes_of(before_second):
    """Starts two nodes, the second one by a command that takes its command line."""
    environment = {**os.environ, "RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": "0" * 64}
    environment["RAY_USAGE_STATS_ENABLED"] = "0"
    ray = Path(sys.executable).with_name("ray")
    port = random.randint(20000, 30000)
    nodes = []

    def start(*words):
        command = [*(before_second if nodes else []), sys.executable, ray, "start"]
        command += ["--block", "--num-cpus", "1", *words]
        quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
        nodes.append(subprocess.Popen(command, env=environment, start_new_session=True, **quiet))

    try:
        start("--head", "--port", str(port), "--include-dashboard", "false")
        wait_for_nodes(1, f"127.0.0.1:{port}", environment)
        start("--address", f"127.0.0.1:{port}")
        wait_for_nodes(2, f"127.0.0.1:{port}", environment)
        yield f"127.0.0.1:{port}", nodes[1], environment
    finally:
        for node in nodes:
            with suppress(ProcessLookupError):
                os.killpg(node.pid, signal.SIGKILL)
            node.wait()


def test_a_lost_node_costs_no_frame(run, network, long, tmp_path, two_nodes):
    """Every process of the second node is killed in the middle."""
    address, second, environment = two_nodes
    film, parts = tmp_path / "film.mp4", tmp_path / ".film.mp4.parts"
    words = long, "-o", film, "--ray", address, "--workers", 2, "--quality", 0, "--sidecar"
    with job(0.5, *words, *network, **environment, ALL_BEGIN="1") as process:
        while process.poll() is None and len(list(parts.glob("0*"))) < 20:
            time.sleep(0.1)
        for child in psutil.Process(second.pid).children(recursive=True):
            with suppress(psutil.Error):
                child.kill()
        second.kill()
        _, errors = process.communicate(timeout=600)
        assert process.returncode == 0, errors
    assert "is lost" in errors
    assert_as_by_one_process(run, network, long, film)


@pytest.mark.skipif(disk.missing() != "", reason=disk.missing())
def test_a_full_disk_of_a_node_costs_no_frame(run, network, long, tmp_path):
    """The temporary folder of the second node has 20 MB."""
    film, small = tmp_path / "film.mp4", tmp_path / "small"
    small.mkdir()
    mount = f'mount -t tmpfs -o size=20m none {small} && TMPDIR={small} exec "$@"'
    words = long, "-o", film, "--workers", 2, "--quality", 0, "--sidecar", *network
    with (
        nodes_of(["unshare", "-rm", "sh", "-c", mount, "sh"]) as (address, _, environment),
        job(0.5, *words, "--ray", address, **environment, ALL_BEGIN="1") as process,
    ):
        _, errors = process.communicate(timeout=600)
        assert process.returncode == 0, errors
    assert f"rests: writing to '{small}/" in errors and "MiB are free" in errors
    assert_as_by_one_process(run, network, long, film)


@pytest.mark.skipif(disk.missing() != "", reason=disk.missing())
def test_a_node_that_cannot_unpack_the_network_costs_only_its_worker(run, network, long, tmp_path):
    """The temporary folder of the second node has 8 KB left."""
    film, small = tmp_path / "film.mp4", tmp_path / "small"
    small.mkdir()
    mount = f"mount -t tmpfs -o size=1m none {small} && head -c 1040384 /dev/zero >{small}/full"
    full = ["unshare", "-rm", "sh", "-c", f'{mount} && TMPDIR={small} exec "$@"', "sh"]
    words = long, "-o", film, "--workers", 2, "--quality", 0, "--sidecar", *network
    with (
        nodes_of(full) as (address, _, environment),
        job(0.5, *words, "--ray", address, **environment, ALL_BEGIN="1") as process,
    ):
        _, errors = process.communicate(timeout=600)
        assert process.returncode == 0, errors
    assert errors.count("cannot load the network: There is no room to unpack") == 1, errors
    assert errors.count("The job goes on without it.") == 1, errors
    assert_as_by_one_process(run, network, long, film)


def test_an_hour_in_parts(run, network, tmp_path):
    """18000 frames, five a second, in parts of a minute."""
    source = media.recording(tmp_path / "hour.mp4", 18000, base=media.Fraction(1, 5), sound="aac")
    film = tmp_path / "film.mp4"
    words = source, "-o", film, "--workers", 2, "--quality", 0, "--sidecar", "--json", *network
    with job(60, *words) as process:
        out, errors = process.communicate(timeout=1200)
        assert process.returncode == 0, errors
    rows = [json.loads(line) for line in out.splitlines()]
    assert max(row.get("parts", 0) for row in rows) > 40
    assert_as_by_one_process(run, network, source, film)


def test_three_hundred_short_clips(network, tmp_path):
    """Each has its film, and its rows are in the one table."""
    clips, films = tmp_path / "clips", tmp_path / "films"
    clips.mkdir(), films.mkdir()
    for number in range(300):
        media.recording(clips / f"{number:03d}.mp4", 6 + number % 7)
    words = clips, "-o", films, "--workers", 2, *network
    with job(60, *words) as process:
        _, errors = process.communicate(timeout=1200)
        assert process.returncode == 0, errors
    for number in range(300):
        assert len(media.times_of(films / f"{number:03d}.mp4")) == 6 + number % 7
    from pyarrow import parquet

    table = parquet.read_table(films / "figures.parquet")
    assert table.num_rows == sum(6 + number % 7 for number in range(300))
