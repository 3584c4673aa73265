"""Strongly connected components of a graph whose nodes are numbers: loops, and whatever else is before itself."""

from __future__ import annotations

from typing import Iterable, List, Optional, Sequence


def components(before: Sequence[Sequence[int]], roots: Optional[Iterable[int]] = None) -> List[List[int]]:
    """The components, each after those that are before it; one node alone where no cycle leads through it.

    Tarjan's algorithm (SIAM J. Comput. 1, 1972) without recursion: linear in nodes and edges.

    Args:
      before: for each node the nodes with an edge to it.
      roots: only these and what is before them; all nodes if None.
    """
    found: List[List[int]] = []
    size = len(before)
    visited = [0] * size  # When a node was met first, from 1 on; size + 1 once its component is found.
    low = [0] * size
    open_nodes: List[int] = []
    clock = 0
    for root in range(size) if roots is None else roots:
        if visited[root]:
            continue
        clock += 1
        visited[root] = low[root] = clock
        open_nodes.append(root)
        path = [(root, iter(before[root]))]
        while path:
            node, rest = path[-1]
            lowest = low[node]
            for other in rest:
                met = visited[other]
                if not met:
                    low[node] = lowest
                    clock += 1
                    visited[other] = low[other] = clock
                    open_nodes.append(other)
                    path.append((other, iter(before[other])))
                    break
                if met < lowest:
                    lowest = met
            else:
                low[node] = lowest
                path.pop()
                if path and lowest < low[path[-1][0]]:
                    low[path[-1][0]] = lowest
                if lowest == visited[node]:
                    found.append(_close(node, open_nodes, visited, size + 1))
    return found


def _close(root: int, open_nodes: List[int], visited: List[int], closed: int) -> List[int]:
    component = []
    while True:
        node = open_nodes.pop()
        visited[node] = closed
        component.append(node)
        if node == root:
            return component
