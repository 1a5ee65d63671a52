"""The outside world behind the ports: PostgreSQL, HTTP services, AWS."""
