"""What a command does: each mode wires the rooms together and holds no arithmetic of its own."""
