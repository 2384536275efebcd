"""Direct scans: which files a DataFrame reads, whether workers may read them themselves, and how they do."""
