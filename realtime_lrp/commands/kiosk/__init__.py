"""`kiosk`: an exhibit that runs for months without anybody looking after it.

    camera -> presence -> states <- opening hours, faults of the parts
       |                    |
       +- clip          -> network -> pages, captions, cards -> window

`settings` checks the configuration and keeps the last good one, `start` runs `loop` turn by turn,
and `report` tells systemd and the technician. `states` decides what is shown. `camera` and
`network` watch what can fail. `pages` and `games` say what stands beside the picture, `screen`
draws, `keys` handles keys and touches. What only a new process mends ends this one with exit code
75.

No picture, map or answer is ever written: nothing here imports code that could.
"""
