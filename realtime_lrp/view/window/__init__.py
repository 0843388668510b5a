"""Windows, made by SDL (package pygame-ce): an ordinary one, and one that fills the screen."""
