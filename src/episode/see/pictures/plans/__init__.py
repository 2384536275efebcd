"""Plans as pictures: SVG that we lay out ourselves, and pages of HTML around it. Nothing but the standard library."""
