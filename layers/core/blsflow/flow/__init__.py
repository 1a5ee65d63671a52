"""Use cases, one verb per module, named like the functions that call them."""
