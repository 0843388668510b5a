"""`evaluate`: measures how well maps point at the object."""
