"""Making a hash table, and what can be asked of one besides lookups."""

from __future__ import annotations

import contextlib
from typing import Any, Collection, Dict, Iterator, Mapping, NamedTuple, Optional

import numpy as np
import tensorflow as tf

from tf_booster import _compat, _native, log
from tf_booster.arguments import is_int
from tf_booster.checkpoint import layout
from tf_booster.embedding import registry
from tf_booster.embedding.initializers import from_initializer
from tf_booster.embedding.table_spec import InitializerSpec, TableSpec, check_name
from tf_booster.parallel import shared_graphs, whole_tables

KEY_DTYPES = (tf.int64, tf.int32, tf.string)
_are_rewritten = False  # Whether graphs are, when they are finished.


def set_rewritten(wanted: bool) -> None:
    """Whether finished graphs are rewritten: while tf_booster is enabled."""
    global _are_rewritten
    _are_rewritten = wanted


class ExportedTable(NamedTuple):
    """A consistent picture of a whole table; row i of each [n, …] tensor belongs to keys[i].

    Of string ids the keys are the hashes. A key that the admission filter still holds back is in pending_keys, not in
    keys.
    """

    keys: tf.Tensor  # int64 [n].
    values: tf.Tensor  # float32 [n, embedding_dim].
    frequencies: tf.Tensor  # int64 [n]: how often each key occurred in training batches.
    last_use_steps: tf.Tensor  # int64 [n]: the table's step at which each key was last trained.
    pending_keys: tf.Tensor  # int64 [p].
    pending_counts: tf.Tensor  # int64 [p].
    step: tf.Tensor  # int64 scalar: updates of the table so far.
    slots: Dict[str, tf.Tensor]  # Name -> float32 [n, embedding_dim]; of a graph that is not yet rewritten empty.


class HashTable:
    """A table of embeddings, one row for each key that training has met; made by get_hash_table.

    Until the graph is rewritten, a small Variable of shape [1, embedding_dim] stands for it in TensorFlow's
    collections.
    """

    def __init__(self, spec: TableSpec, key_dtype: tf.DType, variable: tf.Variable):
        self._spec = spec
        self._key_dtype = key_dtype
        self._variable = variable

    @property
    def name(self) -> str:
        """Name in the graph, with its variable scopes, and prefix of the table's tensors in checkpoints."""
        return self._spec.name

    @property
    def embedding_dim(self) -> int:
        return self._spec.dim

    @property
    def spec(self) -> TableSpec:
        return self._spec

    @property
    def dtype(self) -> tf.DType:
        return tf.float32

    @property
    def key_dtype(self) -> tf.DType:
        return self._key_dtype

    @property
    def trainable(self) -> bool:
        return self._spec.trainable

    @property
    def variable(self) -> tf.Variable:
        """Stands for the table in an optimizer's `var_list`, `tf.gradients` and a Saver; its value means nothing."""
        return self._variable

    @property
    def graph(self) -> tf.Graph:
        return self._variable.graph

    def size(self) -> tf.Tensor:
        """Number of rows: int64 scalar. Keys that the admission filter holds back have none.

        Under several ranks the sum over all of them, which all must fetch at the same step.
        """
        with self._ask("size") as handle:
            size = _native.ops().tf_booster_table_size(handle)
        return whole_tables.whole_size(size) if self._is_divided() else whole_tables.held(size)

    def export(self) -> ExportedTable:
        """The whole table as tensors.

        Under several ranks these are gathered from all of them, on each, so all must fetch them at the same step; a checkpoint has the
        table without gathering it.
        """
        rewritten = registry.rewritten(self.graph).get(self.name)
        slot_names = rewritten.slot_names if rewritten else ()
        with self._ask("export") as handle:
            exported = _native.ops().tf_booster_table_export(handle, dim=self.embedding_dim, S=len(slot_names), N=1)
        (out,) = layout.tables_of(exported)
        if self._is_divided():
            whole = iter(whole_tables.whole_export(tf.nest.flatten(tuple(out))))
            out = layout.Exported(*tf.nest.map_structure(lambda _: next(whole), tuple(out)))
        else:
            out = layout.Exported(*tf.nest.map_structure(whole_tables.held, tuple(out)))
        return ExportedTable(
            keys=out.keys,
            values=out.values,
            frequencies=out.frequencies,
            last_use_steps=out.last_use_steps,
            pending_keys=out.pending_keys,
            pending_counts=out.pending_counts,
            step=out.step,
            slots=dict(zip(slot_names, out.slots)),
        )

    def find(self, keys: Any) -> Any:
        """Reads embeddings outside of training: (values float32 keys.shape + [embedding_dim], found bool keys.shape).

        Of an unknown key the values are those that its row would start with. Nothing is inserted, and no gradient
        flows.
        """
        keys = self.to_keys(keys, "find")
        with self._ask("find") as handle:
            return _native.ops().tf_booster_table_find(handle, keys, dim=self.embedding_dim)

    def insert_or_assign(self, keys: Any, values: Any) -> tf.Operation:
        """Sets the embeddings of keys [n] to values [n, embedding_dim], past the admission filter."""
        keys = self.to_keys(keys, "insert_or_assign")
        with self._ask("insert_or_assign") as handle:
            return _native.ops().tf_booster_table_insert_or_assign(handle, keys, values)

    def erase(self, keys: Any) -> tf.Tensor:
        """Removes keys [n]; unknown ones are fine. Gives the number of rows removed: int64 scalar."""
        keys = self.to_keys(keys, "erase")
        with self._ask("erase") as handle:
            return _native.ops().tf_booster_table_erase(handle, keys)

    def clear(self) -> tf.Operation:
        """Removes all keys."""
        with self._ask("clear") as handle:
            return _native.ops().tf_booster_table_clear(handle)

    def to_keys(self, ids: Any, what: str) -> tf.Tensor:
        """Turns ids of a dtype that the table takes into int64 keys of the same shape.

        int64 and int32 ids are the keys. String ids are hashed by tf.strings.to_hash_bucket_fast into [0, 2^63 - 1).

        Raises:
          TypeError: the ids are of another dtype, or key_dtype does not allow theirs.
        """
        if not tf.is_tensor(ids):
            ids = _converted(ids, self._key_dtype)
        check_keys_dtype(f"{what} {self.name!r}", ids.dtype, self._key_dtype)
        return to_int64_keys(ids)

    def check_graph(self, what: str) -> None:
        """Raises unless ops of this table can be added to the default graph."""
        check_building_graph(f"{what} {self.name!r}")
        if tf.compat.v1.get_default_graph() is not self.graph:
            raise ValueError(
                f"{what} {self.name!r}: the table belongs to another graph; call get_hash_table in each graph, "
                "in the model_fn for an Estimator"
            )

    def _is_divided(self) -> bool:
        """Whether the rewrite has been here, and left this rank a part of the table."""
        return self.name in registry.rewritten(self.graph) and shared_graphs.place(self.graph).size > 1

    @contextlib.contextmanager
    def _ask(self, what: str) -> Iterator[tf.Tensor]:
        """The table's handle; what is made inside runs where the table is. The rewrite sees to it for what was made before."""
        handle = self._handle(what)
        with tf.device(None), tf.device(handle.device):
            yield handle

    def _handle(self, what: str) -> tf.Tensor:
        self.check_graph(what)
        rewritten = registry.rewritten(self.graph).get(self.name)
        if rewritten is not None:
            if self._is_divided() and what in whole_tables.OF_KEYS.values():
                raise ValueError(whole_tables.refusal(self.name, what))
            return rewritten.handle
        return _native.ops().tf_booster_stand_in_table(table_name=self.name)

    def __repr__(self) -> str:
        return f"<tf_booster.HashTable {self.name!r}, embedding_dim={self.embedding_dim}>"


def get_hash_table(
    name: str,
    embedding_dim: int,
    initializer: Any = None,
    dtype: tf.DType = tf.float32,
    key_dtype: tf.DType = tf.int64,
    min_frequency: int = 0,
    eviction: Optional[Mapping[str, Any]] = None,
    max_rows: Optional[int] = None,
    seed: Optional[int] = None,
    trainable: bool = True,
) -> HashTable:
    """Makes the hash table `name` in the default graph, or returns it if the graph has it.

    It takes any id without a vocabulary: a key's row is made when training first meets it.

    Args:
      name: of the table, within the current variable scope; it opens the names of the table's tensors in checkpoints.
      embedding_dim: columns of an embedding, at least 1.
      initializer: of new rows: zeros, ones, constant, random_uniform, random_normal or truncated_normal, as
        TensorFlow's v1, v2 or Keras initializer, or a number, for a constant; by default truncated_normal(0, 1 / sqrt(embedding_dim)).
      dtype: of the embeddings, tf.float32.
      key_dtype: of the ids: tf.int64 (takes int32 and string ids too), tf.int32 or tf.string.
      min_frequency: a key is admitted when training has met it so often; until then it keeps its initial value.
      eviction: {"max_idle_steps": n} or {"max_rows": n, "order": "lru" or "lfu"}: rows that leave after a step.
      max_rows: a limit; the step that would exceed it fails with ResourceExhausted.
      seed: of new rows, which depend only on seed, name, key and column; by default the initializer's, if it has one.
      trainable: whether optimizers see the table.

    Returns:
      The HashTable. With the same name and settings it is the same one.

    Raises:
      RuntimeError: in eager execution, or inside a function, cond or while body.
      TypeError, ValueError: an argument is wrong, or the graph has a table of this name with other settings.
    """
    check_name("get_hash_table", name)
    what = f"get_hash_table {name!r}"
    check_building_graph(what)
    scope = tf.compat.v1.get_variable_scope()
    full_name = f"{scope.name}/{name}" if scope.name else name
    spec = _read_spec(
        what, full_name, embedding_dim, initializer, dtype, min_frequency, eviction, max_rows, seed, trainable
    )
    key_dtype = _as_dtype(what, "key_dtype", key_dtype, KEY_DTYPES, "int64, int32 or string")

    graph = tf.compat.v1.get_default_graph()
    table = registry.tables(graph).get(full_name)
    if table is None:
        table = HashTable(spec, key_dtype, _make_stand_in(what, scope, name, spec))
        registry.add_table(graph, table)
        if not _are_rewritten:
            # Beside a checkpoint TensorFlow's error would be of a Variable that is not in it.
            log.once(
                f"{what}: tf_booster is off; call tf.enable_gpu_booster() first, or tf_booster.rewrite_graph() on the finished graph: "
                "otherwise sessions fail, and restoring a checkpoint says 'not found in checkpoint'"
            )
        return table
    differences = table.spec.differences(spec)
    if table.key_dtype != key_dtype:
        differences = ", ".join(
            filter(None, [differences, f"key_dtype is {table.key_dtype.name} there and {key_dtype.name} here"])
        )
    if differences:
        raise ValueError(
            f"{what}: the graph has a table {full_name!r} with other settings: {differences}; "
            "use the same settings, or another name"
        )
    return table


def _read_spec(what, full_name, embedding_dim, initializer, dtype, min_frequency, eviction, max_rows, seed, trainable):
    _as_dtype(what, "dtype", dtype, [tf.float32], "float32; cast what the lookup returns")
    spec = TableSpec.create(
        "get_hash_table",
        full_name,
        embedding_dim,
        initializer=None,
        seed=seed,
        min_frequency=min_frequency,
        eviction=eviction,
        max_rows=max_rows,
        trainable=trainable,
    )
    if initializer is None:
        return spec.replace(initializer=InitializerSpec.default(spec.dim))
    read = from_initializer(initializer, what)
    return spec.replace(initializer=read.spec, seed=spec.seed if spec.seed is not None else read.seed)


def _as_dtype(what: str, argument: str, value: Any, known: Collection[tf.DType], wanted: str) -> tf.DType:
    try:
        dtype = tf.as_dtype(value)
    except TypeError:
        raise TypeError(f"{what}: {argument} is {value!r}, wanted {wanted}") from None
    if dtype not in known:
        raise ValueError(f"{what}: {argument} is {dtype.name}, wanted {wanted}")
    return dtype


def _make_stand_in(what: str, scope: tf.compat.v1.VariableScope, name: str, spec: TableSpec) -> tf.Variable:
    if scope.reuse is True:
        raise ValueError(
            f"{what}: the variable scope {scope.name!r} has reuse=True, but the graph has no table "
            f"{spec.name!r}; make it once with reuse=tf.compat.v1.AUTO_REUSE or False"
        )
    if scope.regularizer is not None:
        raise ValueError(
            f"{what}: the variable scope {scope.name!r} has a regularizer, which would need every row at every "
            "step; make the table outside of that scope, or regularize what the lookup returns"
        )
    if any(variable.op.name == spec.name for variable in tf.compat.v1.global_variables()):
        raise ValueError(f"{what}: the graph has a Variable {spec.name!r} that is no hash table; use another name")
    with tf.compat.v1.variable_scope(scope, auxiliary_name_scope=False) as inner:
        # A partitioned or cached stand-in would put ops between it and its lookups that say nothing for a table.
        inner.set_partitioner(None)
        inner.set_caching_device(None)
        variable = tf.compat.v1.get_variable(
            name,
            [1, spec.dim],
            tf.float32,
            tf.compat.v1.zeros_initializer(),
            trainable=spec.trainable,
            use_resource=True,
        )
    if not isinstance(variable, tf.Variable) or variable.op.name != spec.name or variable.shape != [1, spec.dim]:
        raise ValueError(
            f"{what}: wanted a Variable {spec.name!r} to stand for the table, but the variable scope gave "
            f"{variable!r}; make the table outside of a scope with a custom_getter, under a name that no op has"
        )
    return variable


def check_building_graph(what: str) -> None:
    """Raises RuntimeError, with the remedy, where no table can be used: eagerly, and inside of a function's body."""
    if tf.executing_eagerly():
        raise RuntimeError(
            f"{what}: hash tables live in a graph, and this is eager execution; call it in an Estimator's "
            "model_fn, or under `with tf.Graph().as_default():`"
        )
    if _compat.is_function_graph(tf.compat.v1.get_default_graph()):
        raise RuntimeError(
            f"{what}: this is the body of a tf.function, a dataset's function, a tf.cond or a tf.while_loop, or a Keras "
            "model; use the table outside of it, in a graph, and pass the embeddings in"
        )
    if tf.distribute.has_strategy():
        raise RuntimeError(
            f"{what}: a tf.distribute strategy is active, and would copy what stands for the table; run "
            "several processes under Horovod in its place"
        )


def check_keys_dtype(what: str, found: tf.DType, key_dtype: tf.DType) -> None:
    """int64 tables take int32 and string ids too; the others only their own."""
    if found not in KEY_DTYPES:
        raise TypeError(f"{what}: ids are {found.name}, wanted int64, int32 or string; cast them with tf.cast")
    if key_dtype not in (tf.int64, found):
        raise TypeError(
            f"{what}: ids are {found.name}, but the table's key_dtype is {key_dtype.name}; make the table with "
            f"key_dtype=tf.int64, or give it {key_dtype.name} ids"
        )


def _converted(ids: Any, key_dtype: tf.DType) -> tf.Tensor:
    """Ids of Python and numpy as a tensor. Integers of any kind are taken; with a hint for TensorFlow numpy's other numbers would be cast."""
    leaves = tf.nest.flatten(ids)
    if all(type(each) in (int, float, str, bytes) for each in leaves):
        return tf.convert_to_tensor(ids, dtype_hint=key_dtype)
    if any(map(tf.is_tensor, leaves)):
        return tf.convert_to_tensor(ids)
    array = np.asarray(ids)
    if array.dtype == object:
        return tf.convert_to_tensor(array.astype(np.int64) if all(map(is_int, array.flat)) else ids)
    if array.size == 0:
        return tf.zeros(array.shape, key_dtype)
    integers = np.int32 if key_dtype == tf.int32 and np.can_cast(array.dtype, np.int32) else np.int64
    narrow = array.dtype.kind in "iu" and array.dtype != np.int32 and np.can_cast(array.dtype, integers)
    return tf.convert_to_tensor(array.astype(integers) if narrow else array)


def to_int64_keys(ids: tf.Tensor) -> tf.Tensor:
    """The keys that stand for ids of any of KEY_DTYPES, in lookups and feature columns alike."""
    if ids.dtype == tf.string:
        return tf.strings.to_hash_bucket_fast(ids, 2**63 - 1)
    return tf.cast(ids, tf.int64)


def _to_tensor(table: HashTable, dtype: Any = None, name: Optional[str] = None, as_ref: bool = False) -> tf.Tensor:
    # A Saver asks for a reference; so `Saver(var_list=[table])` saves the table.
    if as_ref:
        return tf.convert_to_tensor(table.variable)
    raise TypeError(f"{table!r} is no tensor; look ids up in it with tf_booster.embedding_lookup")


tf.register_tensor_conversion_function(HashTable, _to_tensor)
