"""A storm: whatever may happen to the product, drawn from a seed, with what must hold all the same."""
