"""Takes the cut-off stand-ins out of an exported graph, and this machine's card and disk off its tables.

A graph loses no ops, so the rewrite only cuts stand-ins off. An export is a message, and there they can go. It may be served where no
card is, so there TensorFlow places the tables, and they are in memory.
"""

from __future__ import annotations

import re
from typing import Any, Dict, Iterable, List, Set

import tensorflow as tf

from tf_booster import _compat
from tf_booster.estimator import updatable_exports
from tf_booster.passes.graph_view import removed_variables

_STAND_INS = ("TfBoosterStandInIds", "TfBoosterStandInTable")


def finish_last(builder: Any, graph: tf.Graph) -> None:
    """Prunes what was added last to `builder`, a tf.compat.v1.saved_model.Builder; it was made from `graph`."""
    meta_graph = _compat.added_meta_graph(builder)
    updatable_exports.add_signature(meta_graph, graph)
    prune(meta_graph, removed_variables(graph))
    forget_card(meta_graph)
    forget_process(meta_graph)


def prune(meta_graph: Any, variables: Iterable[str]) -> int:
    """Removes stand-ins, the VarHandleOps named, what depends on them, and what nothing else needs; returns how many nodes.

    Removes nothing where a signature, the Saver or a collection needs one of these.
    """
    nodes = {node.name: node for node in meta_graph.graph_def.node}
    gone = {name for name in variables if name in nodes}
    gone.update(name for name, node in nodes.items() if node.op in _STAND_INS)
    consumers = _consumers(nodes.values())
    work = list(gone)
    while work:
        for consumer, is_control in consumers.get(work.pop(), ()):
            if not is_control and consumer not in gone:
                gone.add(consumer)
                work.append(consumer)
    roots = _roots(meta_graph)
    if not gone or gone & roots:
        return 0
    gone |= _useless_without(gone, nodes, consumers, roots)
    kept = [node for node in meta_graph.graph_def.node if node.name not in gone]
    for node in kept:
        node.input[:] = [name for name in list(node.input) if _op_name(name) not in gone]
        _forget_colocation(node, gone)
    del meta_graph.graph_def.node[:]
    meta_graph.graph_def.node.extend(kept)
    return len(gone)


def forget_card(meta_graph: Any) -> int:
    """Takes the constraint to a GPU off the ops on tables, and off the Saver's that go with them; returns how many had one."""
    freed = 0
    for node in meta_graph.graph_def.node:
        on_table = node.op.startswith("TfBooster") or node.name.startswith("tf_booster/") or node.op == "NoOp"
        if on_table and tf.DeviceSpec.from_string(node.device).device_type == "GPU":
            node.device = ""
            freed += 1
    return freed


def forget_process(meta_graph: Any) -> None:
    """Takes the folder of rows on a disk out of the tables, and the training that lends them: where the graph is served there is neither.

    Tables that it does not train are not read before they are restored; see TfBoosterHashTable.
    """
    nodes = meta_graph.graph_def.node
    trains = any(re.fullmatch("TfBoosterTableApply(?!Increment).*", node.op) for node in nodes)
    for node in nodes:
        if node.op == "TfBoosterHashTable":
            node.attr["directory"].s = b""
            node.attr["needs_restore"].b = not trains
            for name in ("lenders", "lent_checkpoint"):
                node.attr.pop(name, None)


def _forget_colocation(node: Any, gone: Set[str]) -> None:
    if "_class" not in node.attr:
        return
    places = node.attr["_class"].list.s
    places[:] = [place for place in list(places) if tf.compat.as_str(place)[len("loc:@") :] not in gone]
    if not places:
        del node.attr["_class"]


def _useless_without(gone: Set[str], nodes: Dict[str, Any], consumers: Dict[str, list], roots: Set[str]) -> Set[str]:
    """The nodes all of whose consumers are in `gone`, or are such nodes themselves."""
    found: Set[str] = set()
    work = [_op_name(name) for dead in gone for name in nodes[dead].input]
    while work:
        name = work.pop()
        if name in gone or name in found or name in roots or name not in nodes:
            continue
        if all(consumer in gone or consumer in found for consumer, _ in consumers[name]):
            found.add(name)
            work.extend(_op_name(i) for i in nodes[name].input)
    return found


def _consumers(nodes: Iterable[Any]) -> Dict[str, List[tuple]]:
    """Name of a node -> pairs of a node that takes from it, and whether over a control edge."""
    found: Dict[str, List[tuple]] = {}
    for node in nodes:
        for name in node.input:
            found.setdefault(_op_name(name), []).append((node.name, name.startswith("^")))
    return found


def _roots(meta_graph: Any) -> Set[str]:
    names: List[str] = []
    for signature in meta_graph.signature_def.values():
        for info in [*signature.inputs.values(), *signature.outputs.values()]:
            names += [info.name, info.coo_sparse.values_tensor_name, info.coo_sparse.indices_tensor_name,
                      info.coo_sparse.dense_shape_tensor_name]  # fmt: skip
            names += [component.name for component in info.composite_tensor.components]
    saver = meta_graph.saver_def
    names += [saver.filename_tensor_name, saver.save_tensor_name, saver.restore_op_name]
    for key, collection in meta_graph.collection_def.items():
        names += collection.node_list.value
        for value in collection.bytes_list.value if key in _compat.variable_collections() else ():
            names += _compat.names_in_variable_def(value)
    return {_op_name(name) for name in names if name}


def _op_name(name: str) -> str:
    """The node that an input, or a tensor's name, points at."""
    return name.lstrip("^").split(":")[0]
