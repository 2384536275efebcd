"""Time slices: the events of a large key are cut by time, and the slices are matched independently."""
