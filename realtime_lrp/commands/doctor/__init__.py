"""`doctor`: checks what works on this machine, and says what to do about the rest.

`run` starts each group of checks in a child process, so that one that hangs or crashes does not
harm the others, and prints their rows as a table. A group is a module here with a table `CHECKS`;
`child` runs it.
"""
