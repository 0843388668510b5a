"""Power of the screen: kept on, or off while an exhibit is closed, by the DPMS of the X server."""

from realtime_lrp.view.window.x11 import X11Window

try:
    from Xlib.ext.dpms import DPMSModeOff, DPMSModeOn
except ImportError:  # not Linux
    DPMSModeOn, DPMSModeOff = 0, 3

NO_X11 = "the screen cannot be switched off: the X server does not answer"
NO_DPMS = "the screen cannot be switched off: the X server has no DPMS"
STAYS_ON = "the screen cannot be switched off: DPMS has no effect"


class ScreenPower:
    """Keeps the screen on, or off.

    Args:
      x11: has the connection to the X server.

    Attributes:
      off: whether the screen is to be off; `apply` obeys.
      fault: why it could not be switched off, or "".
    """

    def __init__(self, x11: X11Window):
        self.off, self.fault = False, ""
        self._x11 = x11
        self._switched_off = self._saved_energy = False

    def apply(self) -> None:
        """Switches the screen as wanted; input that woke it has no lasting effect.

        While it is on, energy saving is disabled. Cheap enough to be called once a second.
        """
        self.fault = self._x11.attempt(self._apply, otherwise=NO_X11 if self.off else "")

    def restore(self) -> None:
        """Switches the screen on, and energy saving if it was enabled before."""
        self._x11.attempt(self._restore, otherwise=None)

    def _apply(self) -> str:
        display = self._x11.connection
        if not (display.has_extension("DPMS") and display.dpms_capable().capable):
            return NO_DPMS if self.off else ""
        if not self.off:
            self._switch_on()
            if display.dpms_info().state:
                self._saved_energy = True
                display.dpms_disable()
            return ""
        if display.dpms_info().power_level != DPMSModeOff:
            self._switched_off = True
            display.dpms_enable()  # it refuses to switch before
            display.dpms_force_level(DPMSModeOff)
            display.sync()
        return "" if display.dpms_info().power_level == DPMSModeOff else STAYS_ON

    def _switch_on(self) -> None:
        if self._switched_off:
            display = self._x11.connection
            display.dpms_force_level(DPMSModeOn)
            display.dpms_disable()
            display.sync()
            self._switched_off = False

    def _restore(self) -> None:
        self._switch_on()
        if self._saved_energy:
            self._x11.connection.dpms_enable()
            self._x11.connection.sync()
