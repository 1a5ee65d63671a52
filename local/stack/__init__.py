"""Start, deploy and stop the local stack; every part leaves nothing behind."""
