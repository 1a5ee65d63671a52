"""The rules, pure: no I/O, the current time is an argument."""
