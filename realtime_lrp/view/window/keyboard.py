"""From SDL's keys to the names of `view.keys`.

A key that writes something is named by what it writes in the user's layout, so that "?" and "["
are found on every keyboard; what is not Latin-1, by the US keyboard's key at the same place.
"""

from realtime_lrp.view.keys import UNNAMED
from realtime_lrp.view.window.display import pygame

NAMED = {
    pygame.K_BACKSPACE: "BackSpace", pygame.K_TAB: "Tab", pygame.K_RETURN: "Return",
    pygame.K_KP_ENTER: "Return", pygame.K_ESCAPE: "Escape", pygame.K_DELETE: "Delete",
    pygame.K_INSERT: "Insert", pygame.K_HOME: "Home", pygame.K_END: "End",
    pygame.K_PAGEUP: "Page_Up", pygame.K_PAGEDOWN: "Page_Down", pygame.K_LEFT: "Left",
    pygame.K_RIGHT: "Right", pygame.K_UP: "Up", pygame.K_DOWN: "Down",
    **{pygame.K_F1 + number: f"F{number + 1}" for number in range(12)},
}  # fmt: skip
"""Keys that write nothing."""

KEYPAD = {
    pygame.K_KP0: "Insert", pygame.K_KP1: "End", pygame.K_KP2: "Down", pygame.K_KP3: "Page_Down",
    pygame.K_KP4: "Left", pygame.K_KP6: "Right", pygame.K_KP7: "Home", pygame.K_KP8: "Up",
    pygame.K_KP9: "Page_Up", pygame.K_KP_PERIOD: "Delete",
}  # fmt: skip
"""Keys of the keypad that write something only with Num Lock."""

NOT_CHARACTERS = 1 << 30  # SDL's key codes from here on are not characters

MODIFIERS = {pygame.KSCAN_CAPSLOCK, pygame.KSCAN_SCROLLLOCK, pygame.KSCAN_NUMLOCKCLEAR}
MODIFIERS |= {*range(pygame.KSCAN_LCTRL, pygame.KSCAN_RGUI + 1), pygame.KSCAN_MODE}

US = dict(enumerate("abcdefghijklmnopqrstuvwxyz1234567890", pygame.KSCAN_A))
US |= dict(enumerate("-=[]\\", pygame.KSCAN_MINUS))
US |= dict(enumerate(";'`,./", pygame.KSCAN_SEMICOLON))
"""Place on the keyboard -> the US keyboard's key there."""


class Keyboard:
    """Gives names to the keys that are pressed."""

    def __init__(self) -> None:
        self.repeated = False  # whether the last name came because its key is held
        self._held: dict[int, str] = {}

    @property
    def held(self) -> set[str]:
        return set(self._held.values())

    def name(self, event: pygame.Event) -> str | None:
        """The name of the key that an event of SDL reports as pressed, or None.

        None as well for keys that only change others, such as Shift, and for combinations with
        Control, Alt or Super. `UNNAMED` for keys without a name.
        """
        if event.type == pygame.KEYUP:
            self._held.pop(event.scancode, None)
        name = _name(event) if event.type == pygame.KEYDOWN else None
        if name:
            self.repeated = event.scancode in self._held
            self._held[event.scancode] = name
        return name


def _name(event: pygame.Event) -> str | None:
    text = event.unicode
    if _is_shortcut(event) or event.scancode in MODIFIERS:
        return None
    if event.key in KEYPAD and not event.mod & pygame.KMOD_NUM:
        return KEYPAD[event.key]
    if event.key in NAMED:
        return NAMED[event.key]
    if not text:  # such as an accent that waits for its letter
        return None if event.key < NOT_CHARACTERS else UNNAMED
    if text == " ":
        return "space"
    if len(text) == 1 and (" " < text < "\x7f" or "\xa0" <= text <= "\xff"):
        return text.lower()
    return US.get(event.scancode, UNNAMED)


def _is_shortcut(event: pygame.Event) -> bool:
    alone = pygame.KMOD_CTRL | pygame.KMOD_LALT | pygame.KMOD_GUI
    return bool(event.mod & alone) and not event.mod & pygame.KMOD_RALT
