"""From key presses of X11 to the names of `view.keys`. No connection to a display, no OpenCV."""

from collections.abc import Callable

from realtime_lrp.view.keys import name_of

SHIFT, CONTROL, ALT, NUM_LOCK, SUPER, LEVEL_3 = 0x01, 0x04, 0x08, 0x10, 0x40, 0x80
"""Bits of the state of a key event. The last is AltGr."""

GROUP_BIT = 13
"""The state's bits from here on are the number of the layout."""

KEYPAD = range(0xFFAA, 0xFFBA)
"""Keysyms of the characters of the keypad: their low byte is the ASCII code + 0x80."""

_SAME = {0xFF9E: 0xFF63, 0xFF9F: 0xFFFF} | {code: code - 0x45 for code in range(0xFF95, 0xFF9D)}
"""Keysyms of the keypad -> those of the keys that do the same: Insert, Delete, Home to End."""


def key_name(state: int, keysym: Callable[[int], int]) -> str | None:
    """The name of a pressed key, as `name_of` gives it.

    Args:
      state: modifiers and layout, as in the event of the core protocol.
      keysym: gives the key's keysym at an index of the keyboard mapping, 0 for none. The indices
        are layout 1, layout 1 with Shift, layout 2, layout 2 with Shift, and the same with AltGr.

    Returns:
      None for keys without a name and for combinations with Control, Alt or Super.
    """
    if state & (CONTROL | ALT | SUPER):
        return None
    shift = bool(state & SHIFT)
    if state & NUM_LOCK and keysym(1) in KEYPAD:
        shift = not shift
    group = 2 if state >> GROUP_BIT & 3 == 1 else 0
    level_3 = 4 if state & LEVEL_3 else 0
    for index in (level_3 + group + shift, group + shift, group, shift, 0):
        if code := keysym(index):  # a key with one meaning has it with Shift and AltGr as well
            break
    name = _name(code)
    return name or (_name(keysym(shift)) if group else None)  # the layout's letters are not Latin


def _name(code: int) -> str | None:
    code = _SAME.get(code, code)
    if code in KEYPAD:
        code -= 0xFF80
    elif 0xFF00 <= code < 0xFF20:  # BackSpace, Tab, Return, Escape
        code &= 0x7F
    return name_of(code)
