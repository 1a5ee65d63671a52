"""The services around the product, made up: device control, profit feeds, and a fleet that may obey."""
