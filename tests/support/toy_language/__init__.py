"""A toy language, `EVERY n ROWS`: each n-th row of a key is a match. A folder and a registration are all it needs."""
