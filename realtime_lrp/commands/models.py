"""`realtime-lrp models`: lists the networks that --model knows by name."""

from realtime_lrp.models.names import NETWORKS


def run() -> list[str]:
    """One line for each network."""
    return [f"{name:8} {network.description}" for name, network in NETWORKS.items()]
