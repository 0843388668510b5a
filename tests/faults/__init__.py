"""Faults on purpose: one kit for the tests of all commands.

- clock: virtual time; waiting for other threads
- cameras: scripted ones, and ones that hang, freeze, go dark or are lost
- server: an IP camera over HTTP that dies, stalls, sends damaged pictures
- networks: networks and engines that overflow, run out of memory, fail
- disk: a disk that is full
- exhibit: the kiosk in a child process, with all of these faults
"""
