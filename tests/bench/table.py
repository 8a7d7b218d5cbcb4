"""The table that all benchmarks print."""

from __future__ import annotations

from collections.abc import Iterable

from rich.console import Console
from rich.table import Table

Row = tuple[str, str, str, str]
"""What, how Hearthreel did, what it is compared with, ratio or target."""


def print_table(rows: Iterable[Row], *, title: str) -> None:
    """Print the rows."""
    table = Table(title=title)
    for column in ("What", "Hearthreel", "Compared with", "Ratio or target"):
        table.add_column(column)
    for row in rows:
        table.add_row(*row)
    Console(width=140).print(table)
