"""`bench`: measures this machine."""
