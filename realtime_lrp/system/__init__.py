"""Services of the operating system: whole files, child processes, signals, memory."""
