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

WRITING = {
    pygame.K_KP5, pygame.K_KP_DIVIDE, pygame.K_KP_MULTIPLY, pygame.K_KP_MINUS, pygame.K_KP_PLUS,
}  # fmt: skip
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
        self._pressed: pygame.Event | None = None
        self._new = False
        self._held: dict[int, str] = {}

    @property
    def held(self) -> set[str]:
        return set(self._held.values())

    def name(self, event: pygame.Event) -> str | None:
        """The name of the key that an event of SDL reports as pressed, or None.

        None as well for keys that only change others, such as Shift, and for combinations with
        Control, Alt or Super. `UNNAMED` for keys without a name.
        """
        if event.type == pygame.KEYDOWN:
            self._pressed, self._new = event, True
            return self._noted(_named(event))
        if event.type == pygame.TEXTINPUT and self._pressed:
            return self._noted(_written(event.text, self._pressed))
        if event.type == pygame.KEYUP:
            self._held.pop(event.scancode, None)
        return None

    def _noted(self, name: str | None) -> str | None:
        if name and self._pressed:
            self.repeated, self._new = not self._new, False
            self._held[self._pressed.scancode] = name
        return name


def _named(event: pygame.Event) -> str | None:
    if _is_shortcut(event) or event.scancode in MODIFIERS:
        return None
    if event.key in KEYPAD:
        return None if event.mod & pygame.KMOD_NUM else KEYPAD[event.key]
    if event.key in NAMED:
        return NAMED[event.key]
    return None if event.key < NOT_CHARACTERS or event.key in WRITING else UNNAMED


def _written(text: str, pressed: pygame.Event) -> str | None:
    if _is_shortcut(pressed) or pressed.key in NAMED:
        return None
    if text == " ":
        return "space"
    if len(text) == 1 and (" " < text < "\x7f" or "\xa0" <= text <= "\xff"):
        return text.lower()
    return US.get(pressed.scancode, UNNAMED)


def _is_shortcut(event: pygame.Event) -> bool:
    alone = pygame.KMOD_CTRL | pygame.KMOD_LALT | pygame.KMOD_GUI
    return bool(event.mod & alone) and not event.mod & pygame.KMOD_RALT
