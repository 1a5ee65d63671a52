"""Finds due schedules and records their occurrences."""
