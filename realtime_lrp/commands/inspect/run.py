"""`inspect`: explains a picture, writes every layer for TensorBoard and returns a table.

The event files are written by events.py, the table is made by table.py. Tensors have a batch of one
picture.
"""

import logging
import re
from pathlib import Path

from realtime_lrp.commands.inspect.events import FILE_MARK, write_run
from realtime_lrp.commands.inspect.table import (
    flood_line,
    layer_table,
    loss_line,
    max_pool_lines,
)
from realtime_lrp.config import Config
from realtime_lrp.engine.accounting import has_account
from realtime_lrp.engine.engine import Engine
from realtime_lrp.engine.provenance import provenance_of
from realtime_lrp.engine.wording import score_list, top_scores
from realtime_lrp.system.atomic import atomic_folder
from realtime_lrp.video.pictures import mirrored, read_picture

log = logging.getLogger(__name__)


def run(config: Config, source: Path, logdir: Path, overwrite: bool) -> list[str]:
    """Explains a picture and writes what every layer held.

    The table marks layers that lose relevance. Loss is correct where a neuron has nothing to share
    its relevance by: a class whose pooled map is 0 everywhere, a neuron without any positive
    contribution under z+, an output of 0 under gamma. A little is lost where the stabiliser is not
    small compared with z (`epsilon`), and with `keep` below 1. Alpha-beta gains relevance (a
    negative loss) where a neuron has no negative contributions. What biases took is a column of its
    own.

    Args:
      config: the configuration.
      source: the picture.
      logdir: TensorBoard's folder; created if its parent exists. The run becomes a folder in it,
        named after the picture, the model, the method or composite, the target and what else is
        set for them.
      overwrite: whether a run of that name is replaced; otherwise it is refused.

    Returns:
      A table of the layers, a line for each max pool, and where the run is.

    Raises:
      MissingInputError: the picture does not exist.
      DamagedInputError: the picture cannot be read.
      OutputError: the run cannot be created, or exists.
      TransferError: a write failed.
    """
    engine = Engine(config)
    target = logdir / run_name(engine.config, source)
    with atomic_folder(target, overwrite, FILE_MARK) as part:
        picture = mirrored(read_picture(source), config.input.mirror)
        region = engine.region(picture.shape[:2])
        x = engine.network.prepare(region.extract(picture)[None]).numpy()
        explanation, records = engine.explainer(x), engine.explainer.layers(x)
        conserving = any(record.rule for record in records)  # otherwise gradients are handed down
        provenance = provenance_of(engine).as_json()
        write_run(part, records, x, explanation.relevance, conserving, provenance)
    advice = engine.explainer.flood_advice
    if conserving and (line := flood_line(records, explanation.relevance, advice)):
        log.warning("%s", line)
    if conserving and has_account(engine) and (line := loss_line(records, explanation.relevance)):
        log.warning("%s", line)
    best = score_list(top_scores(engine, explanation.scores[0], 3))
    return [
        *layer_table(records, conserving),
        *max_pool_lines(records, conserving, config.lrp.pool == "average"),
        f"{source.name}: {best} -> {target}",
        f"Look at it with: tensorboard --logdir {logdir}",
    ]


def run_name(config: Config, source: Path) -> str:
    """The name of the run's folder: the picture and every setting that is not at its default."""
    lrp, model = config.lrp, config.model
    changed = {
        **model.model_dump(exclude_defaults=True, exclude={"name", "labels"}),
        **lrp.model_dump(exclude_defaults=True, exclude={"method", "composite", "target"}),
        **config.input.model_dump(exclude_defaults=True),
    }
    parts = [
        source.stem,
        Path(model.name).stem,
        lrp.composite if lrp.method == "lrp" else lrp.method,
        lrp.target,
        *(f"{key}={value}" for key, value in changed.items()),
    ]
    return "-".join(re.sub(r"[^\w.+=-]+", "_", part) for part in parts)
