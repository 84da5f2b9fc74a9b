"""A layered layout of a directed acyclic graph: ranks from top to bottom, long edges in lanes on the right."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

__all__ = ["Layout", "layered_layout"]

_LANE = 10
"""Pixels between two lanes, and from the boxes to the first one."""
_TURN = 7
"""Radius of the turns of a long edge."""


@dataclass(frozen=True)
class Layout:
    """Positions in pixels: the top left corners of the boxes, the paths of the edges, and the size of the drawing."""

    boxes: tuple[tuple[int, int], ...]
    paths: tuple[str, ...]
    width: int
    height: int


def layered_layout(
    count: int, edges: Sequence[tuple[int, int]], *, box: tuple[int, int], gap: tuple[int, int]
) -> Layout:
    """Return positions of ``count`` boxes; every edge leads from a lower to a higher number.

    Parameters
    ----------
    count : int
        Number of boxes.
    edges : sequence of (int, int)
        From, to.
    box, gap : (int, int)
        Width and height of a box, and of the space between boxes.
    """
    ranks = box_ranks(count, edges)
    columns = _columns(ranks, edges)
    across, down = box[0] + gap[0], box[1] + gap[1]
    corners = tuple((columns[node] * across + 2, ranks[node] * down + 2) for node in range(count))
    right = (max(columns, default=0) + 1) * across - gap[0]
    lanes = _lanes([edge for edge in edges if ranks[edge[1]] - ranks[edge[0]] > 1], ranks)
    paths = []
    for source, target in edges:
        (x, y), (to_x, to_y) = corners[source], corners[target]
        if (source, target) not in lanes:
            start, end, middle = x + box[0] // 2, to_x + box[0] // 2, (y + box[1] + to_y) // 2
            line = f"V{to_y - 2}" if start == end else f"C{start} {middle} {end} {middle} {end} {to_y - 2}"
            paths.append(f"M{start} {y + box[1]}{line}")
            continue
        lane = right + _LANE * (lanes[source, target] + 1)
        top, bottom = y + 2 * box[1] // 3, to_y + box[1] // 3
        paths.append(
            f"M{x + box[0]} {top}H{lane - _TURN}Q{lane} {top} {lane} {top + _TURN}V{bottom - _TURN}"
            f"Q{lane} {bottom} {lane - _TURN} {bottom}H{to_x + box[0] + 2}"
        )
    width = right + _LANE * (max(lanes.values(), default=-1) + 2) + 2
    return Layout(corners, tuple(paths), width, (max(ranks, default=0) + 1) * down - gap[1] + 4)


def box_ranks(count: int, edges: Sequence[tuple[int, int]]) -> list[int]:
    """Return the length of the longest path to each box; a box without a source stands above the first that reads it.

    >>> box_ranks(4, [(0, 1), (1, 3), (2, 3)])
    [0, 1, 1, 2]
    """
    sources: list[list[int]] = [[] for _ in range(count)]
    targets: list[list[int]] = [[] for _ in range(count)]
    for source, target in edges:
        sources[target].append(source)
        targets[source].append(target)
    ranks = [0] * count
    for node in range(count):
        ranks[node] = max((ranks[source] + 1 for source in sources[node]), default=0)
    for node in range(count):
        if not sources[node] and targets[node]:
            ranks[node] = max(0, min(ranks[target] for target in targets[node]) - 1)
    return ranks


def _columns(ranks: Sequence[int], edges: Sequence[tuple[int, int]]) -> list[int]:
    """Return the column of each box: of a rank first the boxes with the longest path below them."""
    below = [0] * len(ranks)
    for source, target in sorted(edges, key=lambda edge: -edge[1]):
        below[source] = max(below[source], below[target] + 1)
    columns, used = [0] * len(ranks), dict[int, int]()
    for node in sorted(range(len(ranks)), key=lambda node: (ranks[node], -below[node], node)):
        columns[node] = used.get(ranks[node], 0)
        used[ranks[node]] = columns[node] + 1
    return columns


def _lanes(edges: Sequence[tuple[int, int]], ranks: Sequence[int]) -> dict[tuple[int, int], int]:
    """Return the lane of each long edge: short ones inside, and no two that overlap in one lane."""
    lanes: dict[tuple[int, int], int] = {}
    for edge in sorted(edges, key=lambda edge: (ranks[edge[1]] - ranks[edge[0]], edge)):
        taken = {
            lane
            for other, lane in lanes.items()
            if ranks[other[0]] <= ranks[edge[1]] and ranks[edge[0]] <= ranks[other[1]]
        }
        lanes[edge] = next(lane for lane in range(len(lanes) + 1) if lane not in taken)
    return lanes
