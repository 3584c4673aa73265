"""The ops between the collectives of an exchange, of tables in host memory and of tables on the card.

On a card rows and gradients stay in its memory, and what is about keys is done on the host: where rows go is planned by ops whose names end
in Plan, and by TableMerge (cc/tf/ops/table_exchange_card_ops.cc). Messages are the same.
"""

from __future__ import annotations

from typing import Any, List, Mapping, NamedTuple, Optional, Sequence, Tuple

import tensorflow as tf

from tf_booster import _native
from tf_booster.parallel import collectives
from tf_booster.passes.graph_view import GraphView
from tf_booster.passes.table_placement import HOST


class OwnedKeys(NamedTuple):
    """The keys of a probe that this rank owns, of all ranks' batches: what an update takes."""

    keys: tf.Tensor
    key_fields: tf.Tensor
    counts: tf.Tensor
    handles: tf.Tensor


class Served(NamedTuple):
    """An exchange after its forward half.

    reply, splits: the rows that came back. owned, owner_codes, received: of each probe. scales: what the gradients of each rank are
    multiplied by.
    """

    reply: tf.Tensor
    splits: tf.Tensor
    owned: List[OwnedKeys]
    owner_codes: Sequence[tf.Tensor]
    received: Sequence[tf.Tensor]
    scales: tf.Tensor


class Gradients(NamedTuple):
    """What an exchange of gradients begins with: codes and values of each, slots and sent of each probe, and notes."""

    codes: List[tf.Tensor]
    values: List[tf.Tensor]
    slots: List[tf.Tensor]
    sent: List[tf.Tensor]
    notes: tf.Tensor


class Owner(NamedTuple):
    """What the owner of keys adds gradients up with, of each probe, and the limits of tables."""

    owner_codes: List[tf.Tensor]
    received: List[tf.Tensor]
    scales: tf.Tensor
    limits: Mapping[str, int]


class Reduced(NamedTuple):
    """The sums of each gradient at the owner, and the op that reads this rank's own rows."""

    indices: Sequence[tf.Tensor]
    values: Sequence[tf.Tensor]
    reader: tf.Operation


class HostExchange:
    """Of tables in host memory."""

    device = HOST

    def __init__(self, view: GraphView):
        self._view = view

    def serve(
        self,
        resources: List[tf.Tensor],
        message: tf.Tensor,
        splits: tf.Tensor,
        reduction: str,
        attrs: Mapping[str, Any],
    ) -> Served:
        """From the ids that came to the rows that came back."""
        with self._view.inserting(HOST):
            serve = _native.ops().tf_booster_table_serve(
                resources, message, splits, reduction=reduction, name="tf_booster/tables/serve", **attrs
            )
            reply, reply_splits = collectives.all_to_all(serve.reply, serve.reply_splits, "tables", "rows")
        owned = map(OwnedKeys, serve.keys, serve.key_fields, serve.counts, serve.handles)
        return Served(reply, reply_splits, list(owned), serve.owner_codes, serve.received, serve.scales)

    def expand(
        self,
        codes: List[tf.Tensor],
        served: Served,
        slots: tf.Tensor,
        starts: tf.Tensor,
        probe: int,
        dim: int,
        name: str,
    ) -> List[tf.Tensor]:
        """The rows of codes, made where the caller's scopes say."""
        return _native.ops().tf_booster_table_expand(
            codes, served.reply, slots, starts, probe=probe, dim=dim, name=f"{name}/gather"
        )

    def reduce(self, local: Gradients, owner: Owner, attrs: Mapping[str, Any]) -> Reduced:
        """From this rank's gradients to the sums of its own keys."""
        ops = _native.ops()
        with self._view.inserting(HOST):
            send = ops.tf_booster_table_send_gradients(*local, name="tf_booster/tables/send_gradients", **attrs)
            message, splits = collectives.all_to_all(send.message, send.splits, "tables", "gradients")
            receive = ops.tf_booster_table_receive_gradients(
                message,
                splits,
                owner.owner_codes,
                owner.received,
                owner.scales,
                M=len(local.codes),
                limits=list(owner.limits.values()),
                limit_names=list(owner.limits),
                name="tf_booster/tables/receive_gradients",
                **attrs,
            )
        return Reduced(receive.indices, receive.values, send.message.op)


class CardExchange:
    """Of tables on the card `device`."""

    def __init__(self, view: GraphView, device: Optional[str]):
        self._view, self.device = view, device

    def serve(
        self,
        resources: List[tf.Tensor],
        message: tf.Tensor,
        splits: tf.Tensor,
        reduction: str,
        attrs: Mapping[str, Any],
    ) -> Served:
        """From the ids that came to the rows that came back."""
        with self._view.inserting(HOST):
            merge = _native.ops().tf_booster_table_merge(
                message, splits, P=len(resources), reduction=reduction, name="tf_booster/tables/merge", **attrs
            )
        with self._view.inserting(self.device):
            serve = _native.ops().tf_booster_table_serve_rows(
                resources,
                merge.asked_keys,
                merge.asked_fields,
                merge.asked_codes,
                merge.fingerprint,
                merge.keys,
                merge.key_fields,
                merge.received,
                merge.reply_splits,
                merge.starts,
                dims=attrs["dims"],
                name="tf_booster/tables/serve",
            )
        reply, reply_splits = self._all_to_all(serve.reply, merge.reply_splits, "rows")
        owned = map(OwnedKeys, serve.owned_keys, serve.owned_fields, merge.counts, serve.handles)
        return Served(reply, reply_splits, list(owned), merge.owner_codes, merge.received, merge.scales)

    def expand(
        self,
        codes: List[tf.Tensor],
        served: Served,
        slots: tf.Tensor,
        starts: tf.Tensor,
        probe: int,
        dim: int,
        name: str,
    ) -> List[tf.Tensor]:
        """The rows of codes, made where the caller's scopes say."""
        ops = _native.ops()
        with tf.device(HOST):
            places = ops.tf_booster_table_expand_plan(
                codes, served.splits, slots, starts, probe=probe, dim=dim, name=f"{name}/expand_plan"
            )
        return ops.tf_booster_table_take_rows(served.reply, places, dim=dim, name=f"{name}/gather")

    def reduce(self, local: Gradients, owner: Owner, attrs: Mapping[str, Any]) -> Reduced:
        """From this rank's gradients to the sums of its own keys."""
        ops, scope = _native.ops(), "tf_booster/tables"
        count = len(local.codes)
        with self._view.inserting(HOST):
            plan = ops.tf_booster_table_send_plan(
                local.codes, local.slots, local.sent, local.notes, name=f"{scope}/send_plan", **attrs
            )
        with self._view.inserting(self.device):
            sent = ops.tf_booster_table_send_rows(
                local.values,
                plan.begins,
                plan.terms,
                plan.to,
                plan.heads,
                plan.head_begins,
                plan.starts,
                plan.splits,
                plan.sizes,
                dims=attrs["dims"],
                name=f"{scope}/send_gradients",
            )
        message, splits = self._all_to_all(sent, plan.splits, "gradients")
        with self._view.inserting(self.device):
            heads = ops.tf_booster_table_receive_heads(
                message, splits, owner.received, M=count, name=f"{scope}/receive_heads", **attrs
            )
        with self._view.inserting(HOST):
            receive = ops.tf_booster_table_receive_plan(
                heads,
                splits,
                owner.owner_codes,
                owner.received,
                owner.scales,
                M=count,
                limits=list(owner.limits.values()),
                limit_names=list(owner.limits),
                name=f"{scope}/receive_plan",
                **attrs,
            )
        with self._view.inserting(self.device):
            values = ops.tf_booster_table_receive_rows(
                message,
                receive.begins,
                receive.terms,
                receive.term_scales,
                dims=attrs["dims"],
                name=f"{scope}/receive_gradients",
            )
        return Reduced(receive.indices, values, sent.op)

    def _all_to_all(self, message: tf.Tensor, splits: tf.Tensor, name: str) -> Tuple[tf.Tensor, tf.Tensor]:
        """Where TensorFlow places it: on the card if Horovod was built for it, else in host memory."""
        with self._view.inserting(None):
            return collectives.all_to_all(message, splits, "tables", name)
