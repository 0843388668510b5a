"""`image`: pictures to overlaid pictures or raw maps."""
