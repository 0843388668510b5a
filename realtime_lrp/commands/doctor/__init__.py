"""`doctor`: checks what works on this machine, and says what to do about the rest."""
