"""The kind of a file, known by its first bytes; what is not read is named, with what to do."""

import zipfile
from pathlib import Path

from realtime_lrp.errors import DamagedInputError
from realtime_lrp.models.untrusted.loading import DESCRIPTION, HDF5

KERAS = "keras"
ONNX = "onnx"
TFLITE = "tflite"
"""The kinds of files that are read: Keras's archive and HDF5, ONNX, TensorFlow's for cameras."""

HEAD = 1 << 16  # Bytes that are looked at

_EXPORT = "Write it as ONNX where it was trained: torch.onnx.export(model.eval(), x, 'name.onnx')."
_SAVE = "Write a whole network: model.save('name.keras')."
_UNPACK = "Unpack it, and give the file of the network."
_CONVERT = "Convert it to ONNX: python -m tf2onnx.convert --help."

BEGINNINGS = (
    (b"version https://git-lfs", "a pointer of Git LFS, not the file itself",
     "Run git lfs pull, or download the file from its page."),
    (b"<!doctype html", "a web page",
     "Download the file itself: on GitHub by its button 'Download raw file'."),
    (b"<html", "a web page", "Download the file itself."),
    (b"<?xml", "XML, such as OpenVINO's", "Give the ONNX file that it was made of."),
    (b"\x80\x02\x8a\nl\xfc\x9cf\xf9j\xa8p\x19.", "PyTorch's pickle", _EXPORT),
    *(
        (b"\x80%c" % version, "a pickle of Python, which is code and is never run", _EXPORT)
        for version in range(2, 6)
    ),
    (b"\x93numpy", "an array of NumPy", _SAVE),
    (b"gguf", "a language model (GGUF)", "Take a network of pictures."),
    (b"\x1f\x8b", "an archive (gzip)", _UNPACK),
    (b"rar!", "an archive (RAR)", _UNPACK),
    (b"7z\xbc\xaf", "an archive (7z)", _UNPACK),
    (b"\x89png", "a picture", "Give it as INPUT, and the network after --model."),
    (b"\xff\xd8\xff", "a picture", "Give it as INPUT, and the network after --model."),
)  # fmt: skip
"""First bytes of a file, in small letters; what it is; what to do."""

_OF_JS = (
    "Give the Keras file that it was made of; Teachable Machine offers it as Tensorflow, Keras."
)
JSON_WORDS = (
    (b'"modelTopology"', "TensorFlow.js's", _OF_JS),
    (b'"weightsManifest"', "TensorFlow.js's", _OF_JS),
    (b'"class_name"', "the architecture of a network without its weights", _SAVE),
    (b"", "JSON", _SAVE),
)
"""Words in JSON; what it is; what to do."""

ENDINGS = {
    ".pb": ("a graph of TensorFlow", "Give the folder of the SavedModel. A frozen graph of "
            "TensorFlow 1: python -m tf2onnx.convert --graphdef FILE."),
    ".index": ("a checkpoint of TensorFlow, which holds weights alone", _SAVE),
    ".pt": ("PyTorch's", _EXPORT),
    ".pth": ("PyTorch's", _EXPORT),
    ".ckpt": ("a checkpoint, which holds weights alone", _EXPORT),
    ".caffemodel": ("Caffe's", "Convert it to ONNX."),
    ".weights": ("Darknet's, which holds weights alone", "Convert it to ONNX."),
    ".mlmodel": ("Core ML's", "Give the network that it was made of."),
    ".engine": ("TensorRT's, for one graphics card", "Give the ONNX file that it was made of."),
}  # fmt: skip
"""How a name ends, where the first bytes tell nothing; what the file is; what to do."""


def kind_of(path: Path) -> str:
    """`KERAS`, `ONNX` or `TFLITE`; the DamagedInputError for another file names what it is."""
    try:
        with path.open("rb") as file:
            head = file.read(HEAD)
    except OSError as error:
        raise DamagedInputError(f"{str(path)!r} cannot be read ({error.strerror}).") from None
    if head.startswith(HDF5) or (head.startswith(b"PK") and DESCRIPTION in _members(path)):
        return KERAS
    if head[4:8] == b"TFL3":
        return TFLITE
    what, advice = _described(path, head)
    text = head[:60].split(b"\n")[0].strip()
    if not what and text.isascii() and text.decode("latin-1").isprintable() and len(text) > 4:
        what = f"text that begins with {text.decode()!r}"
        advice = "Download the file itself."
    if not what and path.suffix in (".onnx", ".keras", ".tflite"):
        return path.suffix[1:]
    what = what or "none of a kind that is known"
    advice = advice or f"Expected .keras, .h5, .onnx or .tflite. {_SAVE}"
    raise DamagedInputError(f"{str(path)!r} is {what}.\n{advice}")


def _described(path: Path, head: bytes) -> tuple[str, str]:
    """The kind of a file that is not read, and what to do; ("", "") if that is not known."""
    start = head.removeprefix(b"\xef\xbb\xbf").lstrip().lower()
    if not start:
        return "empty", "Download or save it again."
    if head.startswith(b"PK"):
        return _archive(path)
    if start.startswith(b"{"):
        return next((what, advice) for word, what, advice in JSON_WORDS if word in head)
    if head[8:9] == b"{" and int.from_bytes(head[:8], "little") < path.stat().st_size:
        return "safetensors, which holds weights alone", _EXPORT
    if head[257:262] == b"ustar":
        return "an archive (tar)", _UNPACK
    for beginning, what, advice in BEGINNINGS:
        if start.startswith(beginning):
            return what, advice
    return ENDINGS.get(path.suffix, ("", ""))


def _members(path: Path) -> list[str]:
    """The names in an archive; none if it is damaged."""
    try:
        with zipfile.ZipFile(path) as archive:
            return archive.namelist()
    except (OSError, ValueError, NotImplementedError, zipfile.BadZipFile):
        return []


def _archive(path: Path) -> tuple[str, str]:
    names = _members(path)
    if not names:
        return "an archive (zip) that is cut or damaged", "Download or save it again."
    if any(name.endswith("data.pkl") for name in names):
        return "PyTorch's", _EXPORT
    endings = (".keras", ".h5", ".hdf5", ".onnx", ".tflite", "saved_model.pb")
    held = next((name for name in names if name.endswith(endings) and "/." not in name), None)
    if held:
        return f"an archive that holds {held[:100]!r}", _UNPACK
    return "an archive (zip)", _UNPACK
