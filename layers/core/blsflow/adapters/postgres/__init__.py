"""State in PostgreSQL: named SQL files, one session, one store."""
