"""What a pass is, and what it tells."""

from __future__ import annotations

import dataclasses
from typing import Any, Dict, List, Tuple

from tf_booster.passes.graph_view import GraphView


class RewriteError(ValueError):
    """A graph cannot be rewritten. The message names the table, the op and the remedy; the graph is as it was."""


@dataclasses.dataclass
class PassResult:
    """What one pass did.

    changes: lines for people.
    skipped: pairs of a node's name and the reason why it was left.
    variables: an entry for each Variable that the pass looked at: name, shape (list), optimizer (None: not trained), fused_into
      (name of an op, None where it was left), reason (why it was left, or "").
    note: why there are no changes, where that is all there is to say.
    other_bits: whether sums come in another order than TensorFlow's, so that last bits differ.
    other_numbers: how numbers are rounded, where more than last bits differ; an option asked for it.
    """

    name: str
    modified: bool = False
    changes: List[str] = dataclasses.field(default_factory=list)
    skipped: List[Tuple[str, str]] = dataclasses.field(default_factory=list)
    variables: List[Dict[str, Any]] = dataclasses.field(default_factory=list)
    note: str = ""
    other_bits: bool = False
    other_numbers: str = ""


class Pass:
    """A rewrite of a finished graph. It plans first and edits after; what it edits before it raises is undone.

    A second run on the same graph changes nothing. `name` is what reports and the option disable_passes call it, `seeks` what
    it is for, as reports say it of a graph that has none of it. Where `essential` is True, the graph cannot run without the pass,
    and what it raises reaches the user.
    """

    name = ""
    seeks = ""
    essential = False

    def requires(self, view: GraphView) -> bool:
        """Whether there is anything for this pass in the graph. Cheap; changes nothing."""
        raise TypeError(f"{type(self).__name__} does not define requires()")

    def run(self, view: GraphView) -> PassResult:
        """Rewrites the graph. Raises RewriteError, before any edit, where it cannot."""
        raise TypeError(f"{type(self).__name__} does not define run()")

    def ensures(self, view: GraphView) -> None:
        """Raises RewriteError if the rewritten graph still holds what this pass removes."""
        raise TypeError(f"{type(self).__name__} does not define ensures()")


def nothing_found(p: Pass) -> str:
    """The note of a pass that had nothing to change, nor anything to leave alone."""
    return f"found no {p.seeks}" if p.seeks else "nothing to do"


def check_read(view: GraphView, *op_types: str) -> None:
    """Raises RewriteError if nothing reads an op of these types, which a pass has made."""
    for op in view.ops(*op_types):
        if not any(output.consumers() for output in op.outputs):
            raise RewriteError(f"Op '{op.name}' computes what nothing reads.")
