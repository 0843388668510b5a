"""`video`: recorded files to overlaid files."""
