"""What a pass is, and what it tells."""

from __future__ import annotations

import dataclasses
from typing import List, Tuple

from tf_booster.passes.graph_view import GraphView


class RewriteError(ValueError):
    """A graph cannot be rewritten. The message names the table, the op and the remedy; the graph is as it was."""


@dataclasses.dataclass
class PassResult:
    """What one pass did: `changes` are lines for people, `skipped` pairs of a node's name and the reason."""

    name: str
    modified: bool = False
    changes: List[str] = dataclasses.field(default_factory=list)
    skipped: List[Tuple[str, str]] = dataclasses.field(default_factory=list)


class Pass:
    """A rewrite of a finished graph. It plans first and edits after, so one that raises has edited nothing.

    A second run on the same graph changes nothing.
    """

    name = ""

    def requires(self, view: GraphView) -> bool:
        """Whether there is anything for this pass in the graph. Cheap; changes nothing."""
        raise TypeError(f"{type(self).__name__} does not define requires()")

    def run(self, view: GraphView) -> PassResult:
        """Rewrites the graph. Raises RewriteError, before any edit, where it cannot."""
        raise TypeError(f"{type(self).__name__} does not define run()")

    def ensures(self, view: GraphView) -> None:
        """Raises RewriteError if the rewritten graph still holds what this pass removes."""
        raise TypeError(f"{type(self).__name__} does not define ensures()")
