"""Starts the package's child processes as forks of one process that has imported their libraries.

Importing OpenCV and PyAV takes 0.15 to 0.25 s of CPU, in hundreds of child processes. Here
one process, the stem, imports them once and forks. The child is an ordinary process of its own: a
child of the process that starts it, with its own pipes, limits, signals and exit code.

Python's `subprocess` does the rest as always. Only the call that begins a process is replaced, for
command lines of `module_command`. A test of that beginning asks for the fixture
`new_processes`.
"""

import atexit
import ctypes
import fcntl
import gc
import importlib
import json
import os
import resource
import runpy
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import warnings
from contextlib import contextmanager, suppress

PR_SET_CHILD_SUBREAPER = 36
MODULES = [
    "realtime_lrp.commands.video.recoding", "realtime_lrp.system.child",
    "realtime_lrp.video.picture_process",
]  # fmt: skip
"""What child processes run; each is imported with its libraries, and run anew in the child."""
FOR_SCRIPTS = ["realtime_lrp.cli", "realtime_lrp.view.window"]
LIMITS = [
    getattr(resource, name)
    for name in dir(resource)
    if name.startswith("RLIMIT_") and name != "RLIMIT_CORE"  # the exhibit lowers its own
]


class Stem:
    """A process that forks, and the socket to it.

    It `forks` this package's processes, and with `scripts` also what `python` runs.
    """

    def __init__(self):
        from realtime_lrp.system.child import module_command

        self._prefix = module_command("")[:-1]
        self._inherited = inherited(os.environ)
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            command = [sys.executable, "-P", __file__, str(theirs.fileno())]
            # what has threads cannot be forked: OpenBLAS's, and jemalloc's that PyArrow brings
            without = {
                "OPENBLAS_NUM_THREADS": "1",
                "JE_ARROW_MALLOC_CONF": "background_thread:false",
            }
            alone = {**os.environ, **without}
            self._process = subprocess.Popen(command, pass_fds=[theirs.fileno()], env=alone)
        self._socket, self._lock = ours, threading.Lock()
        self.forks, self.scripts = True, False

    def begin(self, command, environment, files, **request):
        """The number of a new process for a command line; None if that needs one of its own."""
        command, count = [os.fsdecode(word) for word in command], len(self._prefix)
        if not self.forks or inherited(environment) != self._inherited or __file__ in command:
            return None
        words = command[count:]
        if command[:count] != self._prefix or words[0] not in MODULES:
            if not self.scripts or command[0] != sys.executable:
                return None
            words = [word for word in command[1:] if word != "-P"]  # the stem has no other path
            if words[0] != "-c" and not words[0].endswith(".py"):
                return None
        return self.fork(files, words=words, environment=environment, **request)

    def fork(self, files, **request):
        """The number of a new process, which has open: here -> there, and nothing else.

        None where this process has ended because it could not be forked.
        """
        with self._lock:
            # the process between the stem and the new one ends; that makes the new one our child
            adopt_orphans(True)
            try:
                data = json.dumps({**request, "files": [there for _, there in files]}).encode()
                socket.send_fds(self._socket, [data], [here for here, _ in files])
                return int(self._socket.recv(100) or 0) or None
            except OSError:
                return None
            finally:
                adopt_orphans(False)

    def close(self):
        """Ends it."""
        self._socket.close()
        self._process.wait(60)


def adopt_orphans(adopt):
    """Whether this process becomes the parent of processes below it whose own parent has ended."""
    if ctypes.CDLL(None, use_errno=True).prctl(PR_SET_CHILD_SUBREAPER, int(adopt)):
        raise OSError(ctypes.get_errno(), "orphans cannot be adopted here")


def inherited(environment):
    """What changes how Python begins: its variables, limits, and Ctrl-C that is ignored."""
    limits = [resource.getrlimit(limit) for limit in LIMITS]
    return (
        {name: value for name, value in environment.items() if name.startswith("PYTHON")},
        limits,
        signal.getsignal(signal.SIGINT) == signal.SIG_IGN,
    )


@contextmanager
def forking(stem):
    """Processes are forked meanwhile."""
    start = subprocess._fork_exec

    def fork_or_start(command, executables, close_fds, kept, folder, variables, *rest):
        stdin, _, _, stdout, _, stderr, _, errors = rest[:8]
        restore_signals, new_session, group = rest[8:11]
        environment = dict(os.environ)
        if variables is not None:
            environment = dict(os.fsdecode(line).split("=", 1) for line in variables)
        files = [(number, number) for number in kept if number != errors]
        standard = enumerate((stdin, stdout, stderr))
        files += [(default if number == -1 else number, default) for default, number in standard]
        ordinary = close_fds and restore_signals and group == -1 and rest[15] is None
        number = ordinary and stem.begin(
            command, environment, files, folder=os.fspath(folder or os.getcwd()),
            new_session=bool(new_session),
        )  # fmt: skip
        return number or start(command, executables, close_fds, kept, folder, variables, *rest)

    subprocess._fork_exec = fork_or_start
    try:
        yield
    finally:
        subprocess._fork_exec = start


def serve(number):
    """The stem: forks for each request. Returns, in the new process, what it is to do."""
    requests = socket.socket(fileno=number)
    sys.modules["matplotlib"] = None  # Keras would import it
    for name in (*MODULES, *FOR_SCRIPTS):
        importlib.import_module(name)
    del sys.modules["matplotlib"]
    for number_of in (signal.SIGSEGV, signal.SIGBUS, signal.SIGFPE, signal.SIGILL, signal.SIGABRT):
        signal.signal(number_of, signal.SIG_DFL)  # pygame, which few children import, sets others
    assert len(os.listdir("/proc/self/task")) == 1, "what has threads cannot be forked"
    gc.collect()
    gc.freeze()
    while True:
        data, files, _, _ = socket.recv_fds(requests, 1 << 20, 64)
        if not data:
            os._exit(0)
        read, write = os.pipe()
        between = os.fork()
        if not between:
            between, child = os.getpid(), os.fork()
            if not child:
                while os.getppid() == between:
                    time.sleep(0.0002)
                os.close(read), os.close(write), requests.close()
                return json.loads(data), files
            os.write(write, str(child).encode())
            os._exit(0)
        os.close(write)
        os.waitpid(between, 0)
        requests.send(os.read(read, 100))
        for opened in (read, *files):
            os.close(opened)


def begin(request, files):
    """Gives this process what a new one would begin with, and runs the module."""
    if request["new_session"]:
        os.setsid()
    above = 1 + max(request["files"])
    moved = [fcntl.fcntl(number, fcntl.F_DUPFD, above) for number in files]
    for here, there in zip(moved, request["files"], strict=True):
        os.dup2(here, there)
    kept = sorted({0, 1, 2, *request["files"]})
    for low, high in zip(kept, [*kept[1:], 4096], strict=True):
        os.closerange(low + 1, high)
    sys.stdin, sys.stdout, sys.stderr = (  # for what 0, 1 and 2 are now
        os.fdopen(0, closefd=False), os.fdopen(1, "w", closefd=False),
        os.fdopen(2, "w", buffering=1, errors="backslashreplace", closefd=False),
    )  # fmt: skip
    os.environ.clear()
    os.environ.update(request["environment"])
    os.chdir(request["folder"])
    tempfile.tempdir = None
    warnings.filterwarnings("ignore", ".*found in sys.modules", RuntimeWarning)
    first, *others = request["words"]
    if first == "-c":
        sys.argv = [first, *others[1:]]
        exec(others[0], {"__name__": "__main__"})
    elif first.endswith(".py"):
        sys.argv = request["words"]
        runpy.run_path(first, run_name="__main__")
    else:
        sys.argv = [first, *others]
        with soon_ended():
            runpy.run_module(first, run_name="__main__", alter_sys=True)


@contextmanager
def soon_ended():
    """Ends this process as Python does, but leaves its modules as they are.

    Taking them apart takes 35 ms of CPU. Ctrl-C and what ends with a text are left to Python.
    """
    code = 0
    try:
        yield
    except SystemExit as ended:
        if not isinstance(ended.code, int | None):
            raise
        code = ended.code or 0
    except Exception:
        sys.excepthook(*sys.exc_info())
        code = 1
    threading._shutdown()
    atexit._run_exitfuncs()
    for stream in (sys.stdout, sys.stderr):
        with suppress(OSError, ValueError):
            stream.flush()
    os._exit(code & 0xFF)


if __name__ == "__main__":
    sys.path.insert(0, os.path.dirname(os.path.dirname(__file__)))
    begin(*serve(int(sys.argv[1])))
