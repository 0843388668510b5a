"""`live`: camera, relevance and window, each at its own pace.

    capture thread -> [newest frame] -> relevance thread -> [newest map] -> render loop -> window
                            ^                  ^  engine_cache: prepares engines       |
                            |                  +------- request -------+           |
                            +-- source, freeze, step ----------- controls <- keys, mouse

`run` wires it; `controls` is what keys and mouse change; `relevance` explains the newest frame, or
the frozen one, as the request of the controls says; `engine_cache` prepares other methods; `view`
composes what is shown, with the `figures`; `keeper` keeps it, with `snapshot`.
"""
