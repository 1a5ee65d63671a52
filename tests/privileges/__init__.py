"""Least privilege, shown: the deployed product with each permission of each role taken away in turn."""
