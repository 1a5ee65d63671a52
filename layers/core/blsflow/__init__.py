"""BLSFlow Scheduler: decides for every machine, follows every job to its confirmed end."""
