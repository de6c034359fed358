"""The cheapest set of values to keep so that others can be computed from them (a minimum vertex cut)."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Hashable, Iterable
from typing import Any

INFINITE = 1 << 40


def cut(
    wanted: Iterable[Hashable],
    sources: Callable[[Any], bool],
    parents: Callable[[Any], list],
    cost: Callable[[Any], int],
) -> set:
    """Values to keep: every path from a source to a wanted value crosses one, at least total cost.

    ``sources`` are values that cannot be computed again, ``parents`` what a value is computed from, ``cost`` what keeping
    it takes. By the max-flow min-cut theorem (Ford and Fulkerson 1956) with nodes split in two; augmenting paths are
    shortest ones (Edmonds and Karp 1972).
    """
    wanted = list(dict.fromkeys(wanted))
    nodes: dict = {}
    stack = list(wanted)
    while stack:
        v = stack.pop()
        if v in nodes:
            continue
        nodes[v] = [] if sources(v) else parents(v)
        stack.extend(nodes[v])
    graph: dict = {}

    def edge(a: Hashable, b: Hashable, capacity: int) -> None:
        graph.setdefault(a, {})[b] = graph.get(a, {}).get(b, 0) + capacity
        graph.setdefault(b, {}).setdefault(a, 0)

    for v, ps in nodes.items():
        edge((v, 0), (v, 1), min(cost(v), INFINITE))
        if sources(v):
            edge("s", (v, 0), INFINITE)
        for p in ps:
            edge((p, 1), (v, 0), INFINITE)
    for v in wanted:
        edge((v, 1), "t", INFINITE)
    if "s" not in graph:
        return set()
    while True:
        came = _path(graph, "s", "t")
        if came is None:
            break
        flow, at = INFINITE, "t"
        while at != "s":
            flow = min(flow, graph[came[at]][at])
            at = came[at]
        at = "t"
        while at != "s":
            graph[came[at]][at] -= flow
            graph[at][came[at]] += flow
            at = came[at]
    reached = _reached(graph, "s")
    return {v for v in nodes if (v, 0) in reached and (v, 1) not in reached}


def _path(graph: dict, start: Hashable, end: Hashable) -> dict | None:
    came: dict = {start: None}
    queue = deque([start])
    while queue:
        a = queue.popleft()
        for b, c in graph[a].items():
            if c > 0 and b not in came:
                came[b] = a
                if b == end:
                    return came
                queue.append(b)
    return None


def _reached(graph: dict, start: Hashable) -> set:
    seen = {start}
    queue = deque([start])
    while queue:
        a = queue.popleft()
        for b, c in graph[a].items():
            if c > 0 and b not in seen:
                seen.add(b)
                queue.append(b)
    return seen
