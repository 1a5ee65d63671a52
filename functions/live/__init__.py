"""Answers live streams of the log."""
