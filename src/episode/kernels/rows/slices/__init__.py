"""Kernels of row patterns in slices of time; they call none of the room around them, whose cache is its own."""
