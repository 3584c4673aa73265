"""The pass for Variables on parameter servers: lookups are summed up where their rows are, if that moves fewer bytes.

All lookups of a server share one tensor of ids, one of results and one of gradients a step. docs/design/graph_rewriting.md
tells more.
"""

from __future__ import annotations

from typing import Dict, List

from tf_booster.passes.base import Pass, PassResult, RewriteError
from tf_booster.passes.fetches import executed_ops
from tf_booster.passes.graph_view import GraphView
from tf_booster.passes.server_lookup_edit import exchange, leave_out
from tf_booster.passes.server_lookup_plan import Lookup, gathers_elsewhere, plan_lookups
from tf_booster.passes.servers import task_of


class ServerLookups(Pass):
    """Leaves servers without the library to TensorFlow."""

    name = "server_lookups"
    seeks = "lookups of Variables in other processes (parameter servers)"

    def requires(self, view: GraphView) -> bool:
        """Whether rows of another process are looked up by ids of this one."""
        return bool(gathers_elsewhere(view))

    def run(self, view: GraphView) -> PassResult:
        """Changes no numbers: what is summed up there is summed up in the same order."""
        result = PassResult(self.name)
        plan, live = plan_lookups(view), executed_ops(view)
        lines: Dict[str, List[str]] = {}
        for lookups in plan.groups:
            task = task_of(lookups[0].gather)
            gradients = exchange(view, lookups, plan.sent_together, live)
            lines.setdefault(task, []).append(_change(lookups, gradients))
            result.skipped += [(lookup.rows.op.name, lookup.why_not) for lookup in lookups if lookup.why_not]
        leave_out(view, [lookup for lookups in plan.groups for lookup in lookups])
        result.changes = [f"{task}: {line}" for task, of_task in lines.items() for line in of_task]
        result.skipped += [(op.name, reason) for op, reason in plan.apart]
        result.modified = bool(result.changes)
        return result

    def ensures(self, view: GraphView) -> None:
        """What comes back is read."""
        for op in view.ops("TfBoosterRepliedLookups"):
            if not any(output.consumers() for output in op.outputs):
                raise RewriteError(f"Op '{op.name}' gets what nothing reads.")


def _change(lookups: List[Lookup], gradients: int) -> str:
    pooled = sum(lookup.pooling is not None for lookup in lookups)
    count = f"{len(lookups)} lookup{'' if len(lookups) == 1 else 's'} with one request and one reply"
    if pooled:
        count += f"; {pooled} of them summed up there in each step where that moves fewer bytes"
    if gradients:
        count += f", their gradients sent as {gradients} tensor{'' if gradients == 1 else 's'}"
    return count
