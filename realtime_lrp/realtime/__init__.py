"""Tools for moving pictures: capture, the newest frame and map, the relevance thread, figures."""
