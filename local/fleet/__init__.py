"""A sample fleet: real models, tariffs of real structure, projects, machines and policies."""
