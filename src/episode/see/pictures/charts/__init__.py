"""Charts of looks, as Vega-Lite specifications: plain mappings, so that nothing has to be installed to make them."""
