"""Calls a function in a child process: the file that it reads may make it crash, or never end.

This module, run by itself, is the child.
"""

import importlib
import json
import math
import os
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import msgspec

from realtime_lrp.system.child import Child, Failed, module_command, parent_channel

WALL_FACTOR = 12  # times its CPU time that a child may take, because the machine may be busy


class ChildCall(msgspec.Struct, frozen=True, tag=True):
    """A function, by its module and name, its arguments in JSON, and limits: seconds, bytes."""

    module: str
    name: str
    arguments: str
    cpu_s: int
    memory: int


class Returned(msgspec.Struct, frozen=True, tag=True):
    """The function's return value, in JSON."""

    value: str


def call_in_child(
    file: str, function: Callable[..., Any], *arguments: Any, cpu_s: float, memory: int = -1
) -> Any:
    """Calls a function of a module in a child; arguments and return value are plain data.

    CPU time and address space are limited; -1 is any amount. Its errors are raised here. If it
    crashes or does not end, the error names the `file`.
    """
    child = Child(module_command(__name__), Returned | Failed)
    order = ChildCall(
        function.__module__, function.__qualname__, json.dumps(arguments), math.ceil(cpu_s), memory
    )
    try:
        with suppress(OSError):  # it has ended, which `expect` tells
            child.send(order)
        return json.loads(child.expect(file, Returned, silent_s=WALL_FACTOR * cpu_s).value)
    finally:
        child.close()


def main() -> None:
    """The child process: calls one function."""
    channel = parent_channel(ChildCall)
    order = channel.receive()
    with suppress(ImportError, ValueError):
        import resource  # not on every system

        # the child ends itself even if its parent is killed
        resource.setrlimit(resource.RLIMIT_CPU, (order.cpu_s, order.cpu_s + 1))
        resource.setrlimit(resource.RLIMIT_AS, (order.memory, order.memory))
    try:
        function = getattr(importlib.import_module(order.module), order.name)
        channel.send(Returned(json.dumps(function(*json.loads(order.arguments)))))
    except Exception as error:
        channel.send(Failed.by(error))
    os._exit(0)  # threads of a damaged file may never end


if __name__ == "__main__":
    main()
