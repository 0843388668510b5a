"""`video --workers N` and `video --ray ADDRESS`: many and long recordings on Ray's workers.

Only this folder imports Ray, and only when one of the two options is given.
"""
