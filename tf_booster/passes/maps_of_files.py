"""Maps of the records of each file, in the function of an interleave or flat_map, as maps behind it: the same records in the same order."""

from __future__ import annotations

from typing import Any, Dict, List, Sequence, Tuple

import tensorflow as tf

from tf_booster.passes.dataset_functions import DatasetFunction, Refused, data_inputs, prune
from tf_booster.passes.graph_view import GraphView

_MAPS = {"MapDataset": 1, "ParallelMapDataset": 2, "ParallelMapDatasetV2": 2}  # Inputs.
_READERS = ("TFRecordDataset", "TFRecordDatasetV2", "TextLineDataset")
# What those are inside, and what keeps records or lines as they are.
_PASS_ON = ("FlatMapDataset", "SkipDataset", "TakeDataset")
_KEPT = ("f", "Targuments", "output_types", "output_shapes", "use_inter_op_parallelism", "preserve_cardinality")


def moved_behind(view: GraphView, op: tf.Operation, functions: Dict[str, Any]) -> List[tf.Operation]:
    """New maps, each of the one before, and the first of a new dataset that is `op` without them. Raises Refused where it has none."""
    name = op.get_attr("f").name
    if name not in functions:
        raise Refused(f"its function {name} is not in the graph")
    maps, records = _maps(functions[name])
    if not maps or not _gives_records(records):
        raise Refused("each file is parsed by itself; interleave records, then batch and parse them")
    definition = _without_maps(functions[name], records.name)
    behind = []
    for node in maps:
        behind.append(tf.compat.v1.NodeDef(op="MapDataset"))
        for key in set(_KEPT) & set(node.attr):
            behind[-1].attr[key].CopyFrom(node.attr[key])
    return put_in_place(view, op.node_def, op.inputs, definition, behind, [])


def put_in_place(
    view: GraphView,
    reader: Any,
    inputs: Sequence[tf.Tensor],
    records: Any,
    maps: Sequence[Any],
    functions: Sequence[Any],
) -> List[tf.Operation]:
    """Adds the NodeDefs `maps`, each of the one before, and the first of `reader`, and gives the new maps.

    Args:
      reader: the NodeDef of an interleave or flat_map.
      inputs: what it reads.
      records: the FunctionDef that it gets: from a file's name to a dataset of scalar strings.
      functions: FunctionDefs of the maps that are not in the graph.
    """
    reader.name = "records"
    reader.attr["f"].func.name = records.signature.name
    reader.attr["output_types"].list.type[:] = [tf.string.as_datatype_enum]
    del reader.attr["output_shapes"].list.shape[:]
    reader.attr["output_shapes"].list.shape.add()
    reader.input[:] = [f"input_{i}" for i in range(len(inputs))]
    nodes = [reader]
    for i, node in enumerate(maps):
        node.name = f"map_{i}"
        node.input[:] = [nodes[-1].name]
        nodes.append(node)
    return view.add_nodes(nodes, [records, *functions], inputs, "maps_of_files")[1:]


def _maps(definition: Any) -> Tuple[List[Any], Any]:
    """The maps at the end of the function, in their order, and the node that gives what the first one maps."""
    function = DatasetFunction(definition)
    maps: List[Any] = []
    node = function.result()
    while node is not None and node.op in (*_MAPS, "PrefetchDataset"):
        if node.op in _MAPS:
            if len(data_inputs(node)) != _MAPS[node.op]:
                raise Refused(f"the map of each file, '{node.name}', uses tensors from outside")
            maps.insert(0, node)
        node = function.producer(data_inputs(node)[0])
    return (maps, node) if node is not None else ([], None)


def _gives_records(node: Any) -> bool:
    """Whether the elements of the dataset `node` are scalar strings."""
    if node.op in _READERS:
        return True
    dtypes, shapes = node.attr["output_types"].list.type, node.attr["output_shapes"].list.shape
    return node.op in _PASS_ON and list(dtypes) == [tf.string.as_datatype_enum] and tf.TensorShape(shapes[0]).rank == 0


def _without_maps(definition: Any, records: str) -> Any:
    made = type(definition)()
    made.CopyFrom(definition)
    made.signature.name += "_of_records"
    made.ret[made.signature.output_arg[0].name] = f"{records}:handle:0"
    prune(made)
    return made
