"""What the operating system is asked for: whole files, child processes, signals, memory."""
