"""The files beside films and pictures: JSON lines, raw maps, summaries, snapshots."""
