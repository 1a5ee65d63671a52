"""Reads back attempts and ends them."""
