"""`evaluate --concepts`: do the top channels carry the answer, and do they stay in films?

The command is in run.py.
"""
