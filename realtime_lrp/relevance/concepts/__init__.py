"""Channels of layers as concepts: their shares, maps, and where they respond."""
