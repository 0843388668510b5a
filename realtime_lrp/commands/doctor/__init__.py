"""`doctor`: what works on this machine, and what to do about the rest.

`run` starts each group of checks in a process of its own, which may hang or crash without harm to
the others, and makes a page of what they tell. A group is a module here with `CHECKS`; `child`
goes through them.
"""
