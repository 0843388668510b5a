"""`image`: pictures to overlaid pictures or raw maps."""

import logging
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from realtime_lrp.config import Config
from realtime_lrp.errors import DamagedInputError, MissingInputError
from realtime_lrp.modes.engine import Engine, Result, turned
from realtime_lrp.video.files import PICTURES, completed, inputs_of, outputs_for
from realtime_lrp.video.pictures import read_picture, write_picture
from realtime_lrp.view.overlay import lay_over

OUTPUTS = (".png", ".jpg", ".jpeg", ".npz")

log = logging.getLogger(__name__)


def run(config: Config, inputs: Sequence[str], output: str, overwrite: bool) -> list[str]:
    """Explains each picture and writes it; damaged ones among several are left out and named.

    Args:
      config: the effective configuration.
      inputs: files, folders, globs.
      output: .png, .jpg, .npz, or a folder, which gets PNG files.
      overwrite: whether existing outputs may be replaced.

    Returns:
      One line for each picture: its name, its best labels, where the output is.

    Raises:
      DamagedInputError: no picture can be read.
    """
    sources = inputs_of(inputs, PICTURES, "picture")
    targets = outputs_for(sources, output, ".png", OUTPUTS, overwrite)
    engine, lines = None, []
    for source, target in zip(sources, targets, strict=True):
        try:
            picture = read_picture(source)
        except (DamagedInputError, MissingInputError) as error:
            if len(sources) == 1:
                raise
            log.warning("%s", error)
            continue
        engine = engine or Engine(config)
        result = _explained(config, engine, picture, target, overwrite)
        best = ", ".join(f"{name} {score:.2g}" for name, score in engine.top(result.scores, 3))
        passes = engine.explainer.passes
        note = f" (mean of {passes} passes)" if passes else ""
        lines.append(f"{source.name}: {best} -> {target}{note}")
    if not lines:
        raise DamagedInputError(f"None of the {len(sources)} pictures can be read.")
    return lines


def _explained(
    config: Config,
    engine: Engine,
    picture: np.ndarray,
    target: Path,
    overwrite: bool,
) -> Result:
    picture = turned(picture, config.input.mirror)
    (result,) = engine.explain([picture])
    if not result.scale:
        log.warning("%s: the map is zero everywhere; nothing is drawn", target.name)
    if target.suffix.lower() == ".npz":
        _write_map(config, engine, result, target, overwrite)
    else:
        layer = engine.layer(engine.painter(0.0), result)
        write_picture(target, lay_over(picture, layer), overwrite)
    return result


def _write_map(
    config: Config, engine: Engine, result: Result, target: Path, overwrite: bool
) -> None:
    with completed(target, overwrite) as part, part.open("wb") as file:
        np.savez_compressed(
            file,
            relevance=result.relevance,
            scores=result.scores,
            labels=np.array([name for name, _ in engine.top(result.scores)]),
            target=np.array(config.lrp.target),
            box=np.array(result.region.box),
        )
