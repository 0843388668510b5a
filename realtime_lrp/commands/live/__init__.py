"""`live`: camera, relevance and window, each at its own pace.

capture thread -> [newest frame] -> relevance thread -> [newest map] -> render loop -> window
^                                  ^  engine cache                 |   ^
|                                  +------------ request ----------+   |
+---------------------------- commands ----------------------------- state <- events
"""
