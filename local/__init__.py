"""The whole product on one machine: real PostgreSQL, an AWS emulator, simulated outside services."""
