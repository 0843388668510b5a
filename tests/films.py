"""Films and what lies beside them in a folder."""

import os


def films_in(folder):
    """Names of all files but manifests; each of these belongs to a film."""
    names = sorted(os.listdir(folder))
    manifests = [f".{name}.resume.json" for name in names if not name.startswith(".")]
    assert [name for name in names if name.startswith(".")] == manifests
    return [name for name in names if not name.startswith(".")]
