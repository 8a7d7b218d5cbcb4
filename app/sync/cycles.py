"""Cycles of a directed graph, in an order that does not depend on how the graph was written down."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping


def first_cycles(graph: Mapping[str, Collection[str]]) -> frozenset[str]:
    """Return the nodes of the strongly connected components that no other component leads to.

    All nodes are keys of ``graph``; their values are the nodes that they lead to.
    """
    component = _components(graph)
    led_to = {component[to] for node, tos in graph.items() for to in tos if component[to] != component[node]}
    return frozenset(node for node in graph if component[node] not in led_to)


def _components(graph: Mapping[str, Collection[str]]) -> dict[str, str]:
    """Return, for each node, a name of its strongly connected component (Kosaraju's two passes, without recursion)."""
    back: dict[str, list[str]] = {node: [] for node in graph}
    for node, tos in graph.items():
        for to in tos:
            back[to].append(node)
    component: dict[str, str] = {}
    for root in reversed(_finished(graph)):
        waiting = [root] if root not in component else []
        while waiting:
            node = waiting.pop()
            if node not in component:
                component[node] = root
                waiting += [one for one in back[node] if one not in component]
    return component


def _finished(graph: Mapping[str, Collection[str]]) -> list[str]:
    """Return the nodes in the order in which a depth-first walk leaves them."""
    seen: set[str] = set()
    left: list[str] = []
    for root in graph:
        if root in seen:
            continue
        seen.add(root)
        path: list[tuple[str, Iterator[str]]] = [(root, iter(graph[root]))]
        while path:
            node, tos = path[-1]
            following = next((to for to in tos if to not in seen), None)
            if following is None:
                left.append(node)
                path.pop()
            else:
                seen.add(following)
                path.append((following, iter(graph[following])))
    return left
