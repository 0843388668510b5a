"""The tables of the package, as far as tests go through them."""

from realtime_lrp.relevance.maps.methods import METHODS

FOR_ATTENTION = ("attention", "attention_rollout")
"""The methods that networks without attention do not have."""

METHODS_OF_ALL = [name for name in METHODS if name not in FOR_ATTENTION]
"""The methods that every network has."""
