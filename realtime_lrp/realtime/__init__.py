"""What moving pictures need: capture, the newest frame and map, the relevance thread, figures."""
