"""Faults on purpose, one kit for the tests of all commands; each file says which."""
