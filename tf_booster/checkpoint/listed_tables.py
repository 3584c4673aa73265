"""Fields of tables as ops on several tables list them: the inputs and attributes of cc/tf/kernels/listed_tables.h."""

from __future__ import annotations

import dataclasses
from typing import Any, Dict, List

import tensorflow as tf

from tf_booster.embedding import registry


@dataclasses.dataclass
class ListedTable:
    """Fields of one table: their numbers, and their names in a checkpoint."""

    resource: tf.Tensor
    with_slots: bool = False
    names: Dict[int, str] = dataclasses.field(default_factory=dict)


def add(listed: List[ListedTable], resource: tf.Tensor, field: int, name: str, with_slots: bool = False) -> None:
    """Puts a field where others of its resource are. A second name for the same makes an entry of its own."""
    for table in listed:
        if table.resource.op is resource.op and table.with_slots == with_slots and field not in table.names:
            break
    else:
        table = ListedTable(resource, with_slots)
        listed.append(table)
    table.names[field] = name


def resources(listed: List[ListedTable]) -> List[tf.Tensor]:
    """The input `tables` of an op."""
    return [table.resource for table in listed]


def attributes(listed: List[ListedTable]) -> Dict[str, Any]:
    """The attributes of an op."""
    return {
        "sizes": [len(table.names) for table in listed],
        "fields": [field for table in listed for field in table.names],
        "checkpoint_names": names(listed),
    }


def names(listed: List[ListedTable]) -> List[str]:
    """Of all fields, in their order."""
    return [name for table in listed for name in table.names.values()]


def all_by_device(graph: tf.Graph) -> Dict[str, List[ListedTable]]:
    """All tables of a rewritten graph, under their own names, device by device: an op is on that of its tables."""
    by_device: Dict[str, List[ListedTable]] = {}
    for name, table in registry.rewritten(graph).items():
        add(by_device.setdefault(table.resource.device, []), table.resource, table.field, name)
    return by_device
