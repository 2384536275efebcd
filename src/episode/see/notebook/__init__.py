"""Notebooks: the cell magic `%%episode`, results that show themselves, progress bars."""
