"""The HTTP API: one module per noun, each with its documents (models) and its operations (routes)."""
