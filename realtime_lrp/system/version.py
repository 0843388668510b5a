"""The version of the package that is installed."""

from importlib.metadata import PackageNotFoundError, version

try:
    __version__ = version("realtime-lrp")
except PackageNotFoundError:  # run from a checkout, not installed
    __version__ = "0+checkout"
