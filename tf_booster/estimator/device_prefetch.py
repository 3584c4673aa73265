"""prefetch_to_device: an input function's batches go to the GPU ahead of use, each packed into one buffer and one copy."""

from __future__ import annotations

import functools
from typing import Any, List, Optional

import tensorflow as tf

from tf_booster import _compat
from tf_booster.data import packing
from tf_booster.options import Options
from tf_booster.parallel import ranks
from tf_booster.passes.base import Pass, PassResult
from tf_booster.passes.graph_view import GraphView

BATCHES_AHEAD = 2
_NOTES = ("tf_booster", "prefetch_to_device")  # A graph's collection: (name of the input, why not; "" if done).
_NO_GPU = "TensorFlow sees no GPU; batches are in host memory already"
_wanted: Any = False


def set_wanted(options: Options) -> None:
    """The option prefetch_to_device. "auto": dense numbers, of one process, unless tables of device="cpu" want them in host memory."""
    global _wanted
    _wanted = options.prefetch_to_device
    if _wanted == "auto" and options.device == "cpu":
        _wanted = False


def is_told_of(options: Options) -> bool:
    """Whether the report has an entry for it: not where nobody asked and there is no GPU."""
    return options.prefetch_to_device is True or (options.prefetch_to_device == "auto" and _device() is not None)


def wrap(original: Any) -> Any:
    """Estimator's parse_input_fn_result, which makes an iterator of what an input function returns."""

    @functools.wraps(original)
    def parse_input_fn_result(result: Any) -> Any:
        if _wanted is False or not isinstance(result, tf.data.Dataset):
            return original(result)
        device = _device()
        if _wanted == "auto" and (device is None or ranks.current().size > 1 or not _of_numbers(result.element_spec)):
            return original(result)
        graph = tf.compat.v1.get_default_graph()
        graph.add_to_collection(_NOTES, ("input_fn", "" if device else _NO_GPU))
        if device is None:
            return original(result)
        return on_device(original, result, device)

    return parse_input_fn_result


def on_device(original: Any, dataset: tf.data.Dataset, device: str) -> Any:
    """`original` of `dataset`, by way of packed batches that are copied to `device` ahead of use."""
    ahead = packing.pack_batches(dataset).apply(
        tf.data.experimental.prefetch_to_device(device, buffer_size=BATCHES_AHEAD)
    )
    with tf.device(device):
        # A dictionary is taken for features without labels.
        batch, _, hooks = original(ahead)
        element = packing.unpack(batch, dataset.element_spec)
    features, labels = _compat.features_and_labels(element)
    return features, labels, hooks


def _of_numbers(element_spec: Any) -> bool:
    """Whether all are dense tensors that a card can hold: what has run on one, and all that it saves time for."""
    return all(
        isinstance(spec, tf.TensorSpec) and (spec.dtype.is_floating or spec.dtype.is_integer or spec.dtype.is_bool)
        for spec in tf.nest.flatten(element_spec)
    )


def _device() -> Optional[str]:
    return "/gpu:0" if tf.config.list_physical_devices("GPU") else None


class PrefetchToDevice(Pass):
    """Tells the report what was done when the input was made; nothing is edited any more."""

    name = "prefetch_to_device"
    seeks = "input function that was called with the booster on"

    def requires(self, view: GraphView) -> bool:
        return bool(view.graph.get_collection(_NOTES))

    def run(self, view: GraphView) -> PassResult:
        notes: List[Any] = view.graph.get_collection(_NOTES)
        view.graph.clear_collection(_NOTES)  # They are told of once.
        done = [name for name, why_not in notes if not why_not]
        return PassResult(
            self.name,
            modified=bool(done),
            changes=[f"{name}: {BATCHES_AHEAD} batches ahead on the device, one copy each" for name in done],
            skipped=[(name, why_not) for name, why_not in notes if why_not],
        )

    def ensures(self, view: GraphView) -> None:
        """Nothing was edited."""
