"""Colors of figures, without matplotlib: pages replace them by CSS variables."""

__all__ = ["GRAY", "PALETTE", "line_color"]

PALETTE = ("#2563c9", "#c2410c", "#0f766e", "#7c3aed", "#8a5a00", "#be185d", "#4d7c0f", "#475569")
"""Colors of lines: distinct also for color-blind readers, each with a contrast of at least 4.5 on white."""
GRAY = "#8a8f98"


def line_color(index: int) -> str:
    """Return the color of the line with this number; after the last color they begin again."""
    return PALETTE[index % len(PALETTE)]
