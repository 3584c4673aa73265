"""Optimizers of rows that programs write themselves, of TensorFlow's ops in another order or of other shapes: trained as before."""

import pytest
import tensorflow as tf
from update_programs import check_same, embeddings, minimize

from tf_booster.passes.optimizer_matching import UnsupportedUpdate, match_updates

v1 = tf.compat.v1


class Adam(v1.train.AdamOptimizer):
    """TensorFlow's chain of a table, its steps in the order of `order`: the moments decay (d), get the gradient (s), and move the rows (m)."""

    def __init__(self, order, alpha=lambda alpha, var: alpha):
        super().__init__(0.1)
        self._order, self._alpha = order, alpha

    def _resource_apply_sparse(self, grad, var, indices):
        b1_power, b2_power = self._get_beta_accumulators()
        alpha = self._alpha(self._lr_t * tf.sqrt(1 - b2_power) / (1 - b1_power), var)
        m, v = self.get_slot(var, "m"), self.get_slot(var, "v")

        def decay():
            return [m.assign(m * self._beta1_t), v.assign(v * self._beta2_t)]

        def scatter():
            terms = grad * (1 - self._beta1_t), (grad * grad) * (1 - self._beta2_t)
            return [self._resource_scatter_add(slot, indices, term) for slot, term in zip((m, v), terms)]

        def move():
            return [var.assign_sub(alpha * m / (tf.sqrt(v) + self._epsilon_t))]

        steps, last = {"d": decay, "s": scatter, "m": move}, [grad]
        for step in self._order:
            with tf.control_dependencies(last):
                last = steps[step]()
        return tf.group(*last)


class KerasRMSprop(tf.keras.optimizers.legacy.RMSprop):
    """The same of a mean square: decay (d), gradient (s), move (m)."""

    def __init__(self, order):
        super().__init__(0.1)
        self._order = order

    def _resource_apply_sparse(self, grad, var, indices, apply_state=None):
        rate, rho, ms = 0.1, tf.constant(0.9), self.get_slot(var, "rms")

        def decay():
            return [ms.assign(ms * rho)]

        def scatter():
            return [self._resource_scatter_add(ms, indices, (grad * grad) * (1 - rho))]

        def move():
            return [self._resource_scatter_add(var, indices, -rate * grad / (tf.sqrt(tf.gather(ms, indices)) + 1e-7))]

        steps, last = {"d": decay, "s": scatter, "m": move}, [grad]
        for step in self._order:
            with tf.control_dependencies(last):
                last = steps[step]()
        return tf.group(*last)


def program(optimizer):
    def build(x, ids):
        loss = tf.reduce_mean(tf.square(tf.reduce_sum(embeddings(ids), 1) - x[:, 0]))
        return loss, minimize(optimizer(), loss)

    return build


@pytest.mark.parametrize("order", ["dsm", "mds", "sdm", "dms", "smd", "msd"])
@pytest.mark.parametrize("make", [Adam, KerasRMSprop])
def test_the_order_of_the_steps(make, order):
    """Only the standard one is the fused op's."""
    fused = check_same(program(lambda: make(order)), steps=4)
    assert ("SparseApplyAdam" in fused.fused()) == (make is Adam and order == "dsm")


def test_a_table_is_refused():
    with tf.Graph().as_default():
        table = v1.get_variable("table", [9, 3], use_resource=True)
        loss = tf.reduce_sum(tf.square(tf.nn.embedding_lookup(table, [1, 2])))
        Adam("mds").minimize(loss)
        with pytest.raises(UnsupportedUpdate, match="has no fused form"):
            match_updates("table", table.handle.op)


def a_rate_for_each_row(alpha, var):
    return alpha * tf.reshape(tf.linspace(0.5, 1.5, var.shape[0]), [-1, 1])


@pytest.mark.parametrize("alpha", [a_rate_for_each_row, lambda alpha, var: tf.reshape(alpha, [1, 1])])
def test_a_rate_that_is_no_scalar(alpha):
    assert "SparseApplyAdam" not in check_same(program(lambda: Adam("dsm", alpha)), steps=4).fused()


@pytest.mark.parametrize(
    "what", ["one number for all rows", "ids in a column", "and of any rank", "a rate for each row"]
)
def test_scatters_by_hand(what):
    def build(x, ids):
        tables = [v1.get_variable(f"table_{i}", [23, 4], use_resource=True) for i in range(2)]
        step = v1.train.get_or_create_global_step()
        if what == "ids in a column":
            updates = [v1.scatter_add(t, ids[:, None], -x[:, None] * 0.1) for t in tables]
        elif what == "and of any rank":
            gradient = v1.placeholder_with_default(x[:, None], None)
            updates = [v1.scatter_add(t, ids[:, None], -gradient * 0.1) for t in tables]
        elif what == "a rate for each row":
            updates = [v1.scatter_add(t, ids, -x * tf.reshape(tf.linspace(0.1, 0.2, 16), [16, 1])) for t in tables]
        else:
            updates = [v1.scatter_add(t, ids, -tf.reduce_mean(x) * 0.1) for t in tables]
        return tf.reduce_mean(x), tf.group(*updates, v1.assign_add(step, 1))

    assert not check_same(build, steps=4).fused()
