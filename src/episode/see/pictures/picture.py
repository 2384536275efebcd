"""A chart that shows itself: Altair's, shown and saved without anything from the network.

Altair is loaded with this module, which is therefore loaded when something is drawn.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import altair as alt
import vl_convert

from episode.errors import EpisodeAnalysisError
from episode.see.pictures.charts.parts import Spec

_MIME = f"application/vnd.vegalite.v{alt.SCHEMA_VERSION.lstrip('v').split('.')[0]}+json"
_VERSION = ".".join(alt.SCHEMA_VERSION.lstrip("v").split(".")[:2])
SUFFIXES = (".html", ".svg", ".png", ".pdf", ".json")


class Picture(alt.VConcatChart):
    """A chart of matches: panels below each other, an Altair chart like any other."""

    def __init__(self, *args: Any, **kwds: Any) -> None:
        # The panels stay as they are: to make objects of thousands of rows would take longer than all of the query.
        alt.SchemaBase.__init__(self, *args, **kwds)

    def save(self, fp: Any, format: Any = None, *, inline: bool = True, **kwds: Any) -> None:
        """Write the chart to a file: .html (with all scripts in it), .svg, .png, .pdf or .json."""
        if isinstance(fp, (str, Path)):
            fp = Path(fp).expanduser()
            if format is None and fp.suffix.lower() not in SUFFIXES:
                raise EpisodeAnalysisError(
                    f"{fp.name}: charts are saved as {', '.join(SUFFIXES)}.", hint="Give the file such a name."
                )
        html = format == "html" or (format is None and isinstance(fp, Path) and fp.suffix.lower() == ".html")
        super().save(fp, format, **({"inline": inline} if html else {}), **kwds)

    def to_svg(self) -> str:
        return vl_convert.vegalite_to_svg(self.to_dict(validate=False), vl_version=_VERSION)

    def to_png(self, scale: float = 2.0) -> bytes:
        return vl_convert.vegalite_to_png(self.to_dict(validate=False), vl_version=_VERSION, scale=scale)

    def _repr_mimebundle_(self, *args: Any, **kwds: Any) -> Any:
        """Return the chart for notebooks that can draw it themselves, and a picture of it."""
        spec = self.to_dict(validate=False)
        return {
            _MIME: spec,
            "image/svg+xml": self.to_svg(),
            "text/plain": str(spec.get("description", "A chart of matches.")),
        }


def picture_of(spec: Spec) -> Picture:
    return Picture(**spec)
