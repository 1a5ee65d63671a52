"""Brings the database schema up to date as part of a deployment."""
