"""Reports: what a query found, as one HTML file that opens anywhere, without the network."""
