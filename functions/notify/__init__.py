"""Publishes the outbox."""
