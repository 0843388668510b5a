"""The engine's own pace: maps a second with nothing beside it.

`pace.py CONFIG SECONDS` prints it. It is a program of its own, so that threads are shared and
memory is kept as in `live`.
"""

import sys
import time
from collections import deque
from collections.abc import Callable
from typing import Any

from realtime_lrp.config import load
from realtime_lrp.config.names import VIEWER_COMPOSITE
from realtime_lrp.engine.measured import share_cores
from realtime_lrp.system import machine
from realtime_lrp.video.sources import Synthetic, moving_picture

WARM = 5  # maps that are made before the time counts


def main(file: str, seconds: str) -> None:
    """Makes maps of one synthetic picture, as many at once as `live` would."""
    config = load(file, command="live").config
    machine.limit_kept_memory()
    share_cores(config.model.name)
    from realtime_lrp.engine.opening import engine_for

    engine = engine_for(config, moving=True, otherwise=VIEWER_COMPOSITE)
    engine.warm_up()
    picture = moving_picture(1, Synthetic.size, fps=30)
    under_way = deque[Callable[[], Any]]()
    maps = -WARM
    begin = 0.0
    while maps < 1 or time.monotonic() < begin + float(seconds):
        if maps == 0:
            begin = time.monotonic()
        while len(under_way) < engine.in_flight:
            under_way.append(engine.begin([picture], targets=[config.lrp.target]))
        under_way.popleft()()
        maps += 1
    print(maps / (time.monotonic() - begin))


if __name__ == "__main__":
    main(*sys.argv[1:])
