"""The configuration: one schema, read from YAML and the command line, printed for all to read.

`schema` has every key, `files` reads YAML, `loading` puts the sources together, `printing` writes.
`names` lists what a value may be called, `check` looks whether names and files exist.
Nothing here imports TensorFlow or OpenCV.
"""

from realtime_lrp.config.check import check_names, wrong_names
from realtime_lrp.config.loading import Settings, load
from realtime_lrp.config.names import legal_values
from realtime_lrp.config.printing import as_yaml, json_schema, schema_line
from realtime_lrp.config.problems import (
    KeyPath,
    Problem,
    as_error,
    errors_of,
    key_of,
    problems_of,
)
from realtime_lrp.config.reading import Tree, read_file
from realtime_lrp.config.schema import (
    ASSETS,
    OPTIONS,
    Config,
    describe,
    kind_of,
    legal_keys,
)

__all__ = [
    "ASSETS",
    "OPTIONS",
    "Config",
    "KeyPath",
    "Problem",
    "Settings",
    "Tree",
    "as_error",
    "as_yaml",
    "check_names",
    "describe",
    "errors_of",
    "json_schema",
    "key_of",
    "kind_of",
    "legal_keys",
    "legal_values",
    "load",
    "problems_of",
    "read_file",
    "schema_line",
    "wrong_names",
]
