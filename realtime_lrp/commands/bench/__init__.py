"""`bench`: measures how fast this machine explains pictures."""
