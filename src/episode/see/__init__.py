"""Ways to see what a query does: pictures, reasons (`why_not`), reports, the studio, notebooks."""
