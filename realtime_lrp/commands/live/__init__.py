"""`live`: camera, relevance and window, each at its own pace.

    capture thread -> [newest frame] -> relevance thread -> [newest map] -> render loop -> window
          ^                                  ^  engine cache                 |   ^
          |                                  +------------ request ----------+   |
          +---------------------------- commands ----------------------------- state <- events

Further networks have a relevance thread each, see `realtime.networks`. `run` connects the parts and
runs the loop; `sources` is the list that a key goes through; `saver` writes recordings and
snapshots. The viewer itself, its state, events and drawing, is `realtime.viewer`.
"""
