"""`inspect`: shows what every layer of a network held for one picture."""
