"""Pictures: of matches (`look`, `chart_of`; Altair draws them), and of plans."""
