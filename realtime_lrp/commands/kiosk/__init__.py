"""`kiosk`: an exhibit that runs for months without anybody looking after it.

    camera -> presence -> states <- opening hours, faults of the parts
       |                    |
       +- clip          -> network -> pages, captions, cards -> window

`start` runs `loop` turn by turn. What only a new process mends ends this one with exit code 75.
No picture, map or answer is ever written: nothing here imports code that could.
"""
