"""The commands: each wires the other rooms together and does no arithmetic of its own."""
