"""`concepts`: chooses pictures for the channels of a network, and writes templates for names."""
