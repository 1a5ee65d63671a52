"""What each figure is held against: the best that a competent engineer would write for the bare work alone."""
