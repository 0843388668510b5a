"""`models`: the networks that have a name."""

from realtime_lrp.models.names import NETWORKS


def run() -> list[str]:
    """A line for each network."""
    return [f"{name:8} {network.description}" for name, network in NETWORKS.items()]
