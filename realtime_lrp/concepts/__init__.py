"""Galleries: pictures that show what the channels of a network answer to."""
