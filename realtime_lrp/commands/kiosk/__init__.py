"""`kiosk`: an exhibit that runs for months without anybody looking after it.

    camera -> presence -> states <- opening hours, faults of the parts
       |                    |
       +- clip          -> network -> screen (pages, captions, cards) -> window

`start` prepares what is kept on the disk: a log, the health file, the last good configuration, and
nothing else. `run` runs the loop and reports; `loop` is one turn of it. `states` decides what is
shown. `camera` and `network` watch what can fail.
`presentation`, `screen` and `pages` draw, `visitor` and `lock` handle keys and touches, `service`
talks to systemd.

No picture, map or answer is ever written: nothing here imports code that could.
"""
