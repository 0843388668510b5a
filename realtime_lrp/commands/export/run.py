"""`export`: writes the explanation of one network and method as an ONNX file or a web page."""

from collections.abc import Iterator
from pathlib import Path

from realtime_lrp.commands.export.web_page import check_page, is_page, write_page
from realtime_lrp.config import Config
from realtime_lrp.config.names import VIEWER_COMPOSITE
from realtime_lrp.engine.engine import Engine
from realtime_lrp.errors import UnavailableError, UsageError
from realtime_lrp.models.exported import Exported
from realtime_lrp.system.files import atomic_file, check_output

SUFFIX = ".onnx"


def run(
    config: Config, target: Path, fixed: bool, overwrite: bool, runtime: Path | None = None
) -> Iterator[str]:
    """Writes the file, or the folder of a page; yields a line that names it.

    With a `fixed` target it explains nothing else. `runtime` is a folder with onnxruntime-web.
    Raises what `make` and `write_page` raise.
    """
    page = is_page(target)
    if runtime and not page:
        raise UsageError("--runtime is for a web page. Expected the name of a folder in -o.")
    if page:
        check_page(target, runtime, overwrite)
    else:
        check_output(target, overwrite)
    data, about = make(config, fixed)
    if page:
        write_page(target, data, about, config, runtime, overwrite)
    else:
        with atomic_file(target, overwrite) as part:
            part.write_bytes(data)
    yield f"{described(data, about)} -> {target}"


def make(config: Config, fixed: bool) -> tuple[bytes, Exported]:
    """The ONNX file of the configured explanation, and its metadata.

    Raises:
      Error: what `Engine` and `exported` raise; UnavailableError where ONNX is not installed.
    """
    try:
        import onnxruntime  # noqa: F401 - compares what was made, after a while

        from realtime_lrp.export.file import exported
    except ImportError as error:
        raise UnavailableError(
            f"Exporting needs {error.name}: pip install 'realtime-lrp[export]'"
        ) from None
    return exported(Engine(config, otherwise=VIEWER_COMPOSITE), fixed)


def described(data: bytes, about: Exported) -> str:
    """The file in words, for a line of the report."""
    return (
        f"{about.name}, {about.composite or about.method}, {len(data) / 1e6:.1f} MB, differs by "
        f"{about.largest_difference:.0e} of a map's largest entry"
    )
