"""From key presses of X11 to the names of `view.keys`. No connection to a display, no OpenCV."""

from collections.abc import Callable

from realtime_lrp.view.keys import UNNAMED, name_of

SHIFT, CONTROL, ALT, NUM_LOCK, SUPER, LEVEL_3 = 0x01, 0x04, 0x08, 0x10, 0x40, 0x80
"""Bits of the state of a key event. The last is AltGr."""

GROUP_BIT = 13
"""The state's bits from here on are the number of the layout."""

KEYPAD = range(0xFFAA, 0xFFBA)
"""Keysyms of the characters of the keypad: their low byte is the ASCII code + 0x80."""

_SAME = {0xFF9E: 0xFF63, 0xFF9F: 0xFFFF, 0xFE20: 0xFF09} | {
    code: code - 0x45 for code in range(0xFF95, 0xFF9D)
}
"""Keysyms of the keypad -> those of the keys that do the same: Insert, Delete, Home to End;
Tab with Shift -> Tab."""

MODIFIERS = (
    range(0xFE01, 0xFE14), range(0xFFE1, 0xFFEF), (0xFF14, 0xFF20, 0xFF7E, 0xFF7F),
)  # fmt: skip
"""Keysyms of keys that only change what others mean: Shift, Control, layouts, locks, Compose."""

_US = {10: "1234567890-=", 24: "qwertyuiop[]", 38: "asdfghjkl;'`", 51: "\\zxcvbnm,./"}
_US_KEYS = {row + number: key for row, keys in _US.items() for number, key in enumerate(keys)}
"""Key code -> the key at this position of a US keyboard."""


def key_name(code: int, state: int, keysym: Callable[[int], int]) -> str | None:
    """The name of a pressed key, as `name_of` gives it.

    A key that is not Latin in any layout has the name that it has on a US keyboard.

    Args:
      code: the key code, 8 to 255.
      state: modifiers and layout, as in the event of the core protocol.
      keysym: gives the key's keysym at an index of the keyboard mapping, 0 for none. The indices
        are layout 1, layout 1 with Shift, layout 2, layout 2 with Shift, and the same with AltGr.

    Returns:
      `UNNAMED` for other keys without a name. None for keys such as Shift, for those without a
      meaning, and for combinations with Control, Alt or Super.
    """
    if state & (CONTROL | ALT | SUPER):
        return None
    shift = bool(state & SHIFT)
    if state & NUM_LOCK and keysym(1) in KEYPAD:
        shift = not shift
    group = 2 if state >> GROUP_BIT & 3 == 1 else 0
    level_3 = 4 if state & LEVEL_3 else 0
    for index in (level_3 + group + shift, group + shift, group, shift, 0):
        if meant := keysym(index):  # a key with one meaning has it with Shift and AltGr as well
            break
    if not meant or any(meant in keysyms for keysyms in MODIFIERS):
        return None
    meanings = meant, keysym(shift), keysym(2 + shift)  # in this layout, in each layout
    names = [*map(_name, meanings), _US_KEYS.get(code), UNNAMED]
    return next(filter(None, names))


def _name(keysym: int) -> str | None:
    keysym = _SAME.get(keysym, keysym)
    if keysym in KEYPAD:
        keysym -= 0xFF80
    elif 0xFF00 <= keysym < 0xFF20:  # BackSpace, Tab, Return, Escape
        keysym &= 0x7F
    return name_of(keysym)
