"""How child processes begin."""

import subprocess
import sys

BESIDE_CHANGES = """
import ctypes, itertools, os, threading
from realtime_lrp.system.child import Child

def change():
    for number in itertools.count():
        c.setenv(b"NAME%d" % (number % 3000), b"value" * 10, 1)
        c.unsetenv(b"NAME%d" % (7 * number % 3000))

c = ctypes.CDLL(None)
threading.Thread(target=change, daemon=True).start()
for _ in range(100):
    Child(["/bin/true"], dict)._process.wait()
print("all have begun", flush=True)
os._exit(0)
"""


def test_children_begin_while_another_thread_changes_variables_in_c(new_processes):
    """As Qt does when it opens a window: it may move them while they are handed on."""
    words = [sys.executable, "-c", BESIDE_CHANGES]
    done = subprocess.run(words, capture_output=True, text=True)
    assert done.stdout == "all have begun\n", done.stderr[-500:]
