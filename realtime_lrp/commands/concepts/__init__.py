"""`concepts`: chooses pictures for the channels of a network, and writes templates for names.

`run` puts it together. `pictures` reads, `ranking` keeps the best pictures of each channel while
all are looked at, `crops` cuts out what a channel answers to, `sheet` draws them all.
"""
