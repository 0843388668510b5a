"""`kiosk`: an exhibit that needs no keeper.

    camera -> presence -> states <- opening hours, what parts say is wrong
       |                    |
       +---- or clip ----> network -> stage (pages, captions, cards) -> window

`start` finds the configuration that holds and prepares what stays on the disk: a log, the health
file, the last good configuration, and nothing else. `run` keeps it going, turn by turn of `loop`;
`states` decides what is shown, `parts` are watched and started again, `stage` draws `pages`,
`visitor` and `lock` answer keys and touches, `service` talks to systemd; `folder` keeps a second
exhibit away.

No picture, map or answer is ever written: nothing here imports what could.
"""
