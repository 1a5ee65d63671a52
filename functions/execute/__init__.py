"""Sends one attempt to the service that executes it."""
