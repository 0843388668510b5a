"""The configuration: one schema, read from YAML and the command line, checked and printed.

Nothing here imports TensorFlow or OpenCV: that keeps `--help` and completion fast.
"""

from realtime_lrp.config.keys import FIELDS, OPTIONS, describe, legal_values, option_type
from realtime_lrp.config.loading import Settings, load, read_as, settings_tree
from realtime_lrp.config.printing import as_yaml, json_schema
from realtime_lrp.config.problems import (
    KeyPath,
    Problem,
    as_error,
    check_also_models,
    check_names,
    errors_of,
    key_of,
    wrong_names,
)
from realtime_lrp.config.reading import Tree, read_file
from realtime_lrp.config.schema import ASSETS, Config
