"""Carries out one step of a benchmark run."""
