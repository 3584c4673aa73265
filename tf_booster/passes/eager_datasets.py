"""Datasets that are iterated eagerly: `for batch in dataset`, Keras's fit. There is no graph; the dataset is made one, once.

tf.data writes a dataset as a graph (as it does for its own optimizations), the pass `input_pipeline` changes that, and tf.data makes
a dataset of it again, which iterators of the first are then given.

A shuffle keeps an order, or a sequence of them, for all that is made of it: `shuffled.take(n)` and `shuffled.skip(n)` may have to
be the two parts of one order. So it is replaced only where nobody else can have drawn from it, or draw from it.
"""

from __future__ import annotations

import functools
import itertools
import sys
from typing import Any, Iterator

import tensorflow as tf

from tf_booster import _compat, log
from tf_booster.passes.base import PassResult
from tf_booster.passes.graph_view import GraphView
from tf_booster.passes.input_pipeline import InputPipeline
from tf_booster.report import Report, publish, report

_STANDS_FOR_IT = "_tf_booster_stands_for_it"  # On a dataset: the one that its iterators get.
_NOTE = "Datasets that are iterated eagerly, in the order of their first iterators."
_all = PassResult(InputPipeline.name)
_numbers = itertools.count(1)
_wanted = False
_fewest_references = sys.maxsize
_born_before = 0  # Numbers of tensors that are older than the switch.


def set_wanted(wanted: bool) -> None:
    """Whether iterators of datasets get what stands for them."""
    global _wanted, _born_before
    if wanted and not _wanted:
        _born_before = _compat.newest_tensor_number()
    _wanted = wanted


def wrap(original: Any) -> Any:
    """The method in which tf.data's eager iterator takes its dataset."""

    @functools.wraps(original)
    def _create_iterator(self: Any, dataset: Any) -> None:
        original(self, stands_for(dataset) if _wanted and tf.executing_eagerly() else dataset)

    return _create_iterator


def stands_for(dataset: tf.data.Dataset) -> tf.data.Dataset:
    """The dataset that gives what `dataset` gives, from files to parsed batches in one op; `dataset` itself where that cannot be."""
    made = getattr(dataset, _STANDS_FOR_IT, None)
    if made is None:
        made = _made(dataset) if any(_compat.reads_records(d) for d in _behind_files(dataset)) else dataset
        # Each iterator gets the same one, because the epochs of a shuffle are counted there.
        setattr(dataset, _STANDS_FOR_IT, made if made is not dataset else False)
    return made or dataset


def _made(dataset: tf.data.Dataset) -> tf.data.Dataset:
    result = PassResult(InputPipeline.name)
    try:
        variant = _compat.changed_dataset(dataset, lambda graph: _change(graph, result, dataset))
    except Exception as error:  # The program goes on with its dataset. pylint: disable=broad-except
        why = f"it could not be made a graph, changed and made again: {type(error).__name__}: {error}".splitlines()[0]
        result = PassResult(InputPipeline.name, skipped=[("dataset", why)])
        variant = None
    _report(result)
    return dataset if variant is None else _compat.dataset_in_place_of(dataset, variant)


def _report(result: PassResult) -> None:
    """Adds `result` to the report of the datasets, which is the last one unless a graph was rewritten."""
    for name, why in result.skipped:
        log.once(f"a dataset that is iterated stays TensorFlow's, {name}: {why}")
    number = next(_numbers)
    _all.changes += [f"dataset {number}: {change}" for change in result.changes]
    _all.skipped += [(f"dataset {number}: {name}", why) for name, why in result.skipped]
    _all.modified = bool(_all.changes)
    if not report().modified or report().note == _NOTE:
        publish(Report([_all], [], note=_NOTE), tf.Graph())


def _change(graph: tf.Graph, result: PassResult, dataset: tf.data.Dataset) -> bool:
    view = GraphView(graph)
    why_not = _shares_order(dataset)
    if why_not:
        if InputPipeline().requires(view):
            result.skipped.append(("shuffle", why_not))
        return False
    found = InputPipeline().run(view)
    result.changes, result.skipped, result.modified = found.changes, found.skipped, found.modified
    return found.modified


def _shares_order(dataset: tf.data.Dataset) -> str:
    """Why others may draw from the order of a shuffle in `dataset`, or have drawn; "" if nobody can."""
    held, references = False, _references_of_a_step()
    for step in _behind_files(dataset):
        held = held or (step is not dataset and sys.getrefcount(step) > references)
        if not _compat.keeps_order(step):
            continue
        if _compat.tensor_number(_compat.variant_of_dataset(step)) <= _born_before:
            return "it keeps an order and is older than enable_gpu_booster(), so it may have been iterated; make it after that line"
        if held:
            return (
                "it keeps an order, and the program holds a dataset that is made of it, so others may draw from it; "
                "make the dataset in one expression, or give all its steps one name"
            )
    return ""


def _references_of_a_step() -> int:
    """What sys.getrefcount says in _shares_order of a dataset that only the next step holds.

    A debugger, or whatever else traces Python, holds what local variables do, and so this counts more. So it is measured each time (0.5 ms), and
    the least counts: with too small a number a dataset is left without need, with too large a one an order would be drawn twice.
    """
    global _fewest_references
    for step in _behind_files(tf.data.Dataset.range(1).shuffle(1).batch(1)):
        if "Shuffle" in type(step).__name__:
            _fewest_references = min(_fewest_references, sys.getrefcount(step))
            return _fewest_references
    raise AssertionError("tf.data's shuffle has another name")


def _behind_files(dataset: tf.data.Dataset) -> Iterator[tf.data.Dataset]:
    """`dataset` and what it is made of, last step first, up to what reads files."""
    stack = [dataset]
    while stack:
        step = stack.pop()
        if not _compat.reads_records(step):
            stack.extend(_compat.inputs_of_dataset(step))
        yield step
        del step
