"""Decides for every machine of one policy tick."""
