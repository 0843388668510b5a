"""The faults that the tests make: one kit for all modes.

- clock: time that the tests make pass; waiting for what threads bring about
- cameras: scripted ones, and such that hang, freeze, go dark, are lost
- server: an IP camera over HTTP that dies, stalls, sends damaged pictures
- networks: networks and engines that overflow, run out of memory, fail
- disk: a disk that is really full
- exhibit: the kiosk in a process of its own, which all this happens to
"""
