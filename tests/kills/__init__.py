"""Workers as processes of their own, killed at every boundary to the outside."""
