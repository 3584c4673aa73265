"""Lines of comma-separated values: what tf.io.decode_csv gives, and its errors."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf
from hypothesis import given, settings
from hypothesis import strategies as st

from tf_booster import _native

DEFAULTS = {
    "float32": tf.constant([7.5]),
    "float64": tf.constant([-7.5], tf.float64),
    "int32": tf.constant([3], tf.int32),
    "int64": tf.constant(4, tf.int64),
    "string": tf.constant(["none"]),
}


def outcome(op, lines, defaults, options):
    """The bits of what `op` gives, or its error."""
    try:
        found = op(records=tf.constant(lines, tf.string), record_defaults=defaults, **options)
    except tf.errors.InvalidArgumentError as error:
        return error.message.split("}} ")[-1].split(" [Op:")[0]
    return [(x.dtype, x.shape, x.numpy().tolist() if x.dtype == tf.string else x.numpy().tobytes()) for x in found]


def assert_same(lines, kinds, required=(), **options):
    """Whether ours gives what TensorFlow's does; returns that."""
    defaults = [DEFAULTS[kind] for kind in kinds]
    for i in required:
        defaults[i] = tf.constant([], defaults[i].dtype)
    theirs = outcome(tf.raw_ops.DecodeCSV, lines, defaults, options)
    assert outcome(_native.ops().tf_booster_decode_csv, lines, defaults, options) == theirs
    return theirs


NUMBERS = """0 -0 1 -1 +1 00012 2147483647 2147483648 -2147483648 -2147483649 999999999999999999 1000000000000000000 -999999999999999999
9223372036854775807 9223372036854775808 -9223372036854775808 1. .5 -.5 - . -. 1.5 -1.5 1..5 1.5.2 1e3 1E-3 1e400 -1e400 1e-400 1e-45 nan NaN -nan inf -inf
infinity 0x10 0x1p3 1_0 1,0 0.1 0.2 0.3 123456789.123456789 0.123456789012345678 1234567890123456789 0.0000000000000000001 9007199254740992
9007199254740993 9007199254740991.5 16777216 16777217 16777219 0.50000002980232239 1.00000005960464477 1.000000059604644775390625
3.4028235e38 3.4028236e38 1.17549435e-38 4.9e-324 --1 1- a1 1a""".split()


@pytest.mark.parametrize("kind", DEFAULTS)
@pytest.mark.parametrize("around", ["{}", " {}", "{} ", "\t{}", "{}\0"])
def test_numbers(kind, around):
    for number in [*NUMBERS, "", "½"]:
        assert_same([around.format(number) + ";x"], [kind, "string"], field_delim=";")


@pytest.mark.parametrize("kind", ["float32", "float64"])
def test_fractions_are_rounded_as_by_tensorflow(kind):
    """Near the middle between two floats, above all, where rounding twice gives another one."""
    rng = np.random.default_rng(3)
    found = []
    for bits in rng.integers(0x30000000, 0x4F000000, 300):
        low, high = np.array([bits, bits + 1], np.int32).view(np.float32).astype(np.float64)
        middle = (low + high) / 2
        for value in (low, middle, np.nextafter(middle, 0), np.nextafter(middle, 1e30)):
            found += [f"{value:.{digits}f}" for digits in (3, 6, 9, 12, 15, 17)]
    found += [
        f"{x:.{d}f}"
        for x, d in zip(rng.standard_normal(2000) * 10.0 ** rng.integers(-5, 9, 2000), rng.integers(0, 18, 2000))
    ]
    assert not isinstance(assert_same(found, [kind]), str)


@pytest.mark.parametrize(
    "line",
    ["", ",", ",,", "a", "a,", "a,b", "a,,b", '"a",b', '"a,b",c', '"a""b",c', '"""",""', '"a"""', '"a""', '"a"b,c', '"a"b', 'a"b,c',
     '"', '""', '"",', '",', 'a,"', "a\n", "\na,b", "a\r\n", "a,\n", "a,b\r", "\r\n", '"a\nb",c', 'a,"b\r\n"', "a;b", "'a,b'",
     "a" * 40 + ",b", '"' + "x" * 40 + '""' + "y" * 40 + '","z""z"', "a,b,\"c", 'a,b,c"d'],
)  # fmt: skip
@pytest.mark.parametrize("num_fields", [1, 2, 3])
def test_odd_lines(line, num_fields):
    kinds = ["string"] * num_fields
    assert_same(["p,q,r"[: 2 * num_fields - 1], line], kinds)
    assert_same([line], kinds, use_quote_delim=False)
    assert_same([line], kinds, field_delim=";", na_value="a")
    assert_same([line], kinds, required=[0])
    assert_same([line], kinds, select_cols=list(range(num_fields)))
    assert_same([line], kinds[:1], select_cols=[num_fields])
    for delimiter in '"\n\r':
        assert_same([line], kinds, field_delim=delimiter)


def test_shapes_defaults_and_wrong_arguments():
    assert_same([], ["int32", "string"])
    assert_same("1,2", ["int32", "int64"])
    assert_same([["1,2"], [",x"]], ["int32", "string"])
    assert_same(["1,NA", "NA,2"], ["float32", "int64"], na_value="NA")
    assert "required but missing in record 1" in assert_same(["1,2", "1,"], ["int32", "int32"], required=[1])
    assert "not a valid int32: x" in assert_same(["1,2", "x,1"], ["int32", "int32"])
    assert "Expect 2 fields but have 3 in record 0" in assert_same(["1,2,3"], ["int32", "int32"])
    for options in ({"select_cols": [1, 0]}, {"select_cols": [-1, 0]}, {"select_cols": [0]}, {"field_delim": ""}):
        with pytest.raises(tf.errors.InvalidArgumentError):
            _native.ops().tf_booster_decode_csv(records=["1,2"], record_defaults=[[1], [2]], **options)
    with pytest.raises(tf.errors.InvalidArgumentError, match="only be 1 default per field but field 1 has 2"):
        _native.ops().tf_booster_decode_csv(records=["1,2"], record_defaults=[[1], [2, 3]])


def test_errors_of_single_lines_are_of_record_0():
    with pytest.raises(tf.errors.InvalidArgumentError, match="Field 0 in record 0 is not a valid int32: x"):
        _native.ops().tf_booster_decode_csv(records=["1", "x"], record_defaults=[[1]], single=True)


FIELDS = st.one_of(
    st.sampled_from(NUMBERS),
    st.integers(-(2**63), 2**63 - 1).map(str),
    st.decimals(allow_nan=False, allow_infinity=False, places=6, min_value=-(10**9), max_value=10**9).map(str),
    st.floats().map(repr),
    st.text('ab1.-," \n\r;', max_size=5),
    st.text(max_size=30),
)


@settings(deadline=None, max_examples=400)
@given(
    st.lists(st.lists(FIELDS, min_size=1, max_size=4).map(",".join), max_size=4),
    st.lists(st.sampled_from(sorted(DEFAULTS)), min_size=1, max_size=4),
    st.booleans(),
    st.sampled_from([None, [0], [1, 3], [0, 2, 5]]),
)
def test_any_lines(lines, kinds, quotes, columns):
    columns = [] if columns is None else columns[: len(kinds)]
    kinds = kinds[: len(columns)] if columns else kinds
    assert_same(lines, kinds, use_quote_delim=quotes, select_cols=columns)


@settings(deadline=None, max_examples=200)
@given(
    st.lists(
        st.tuples(st.integers(-10, 10**6), st.integers(0, 10**9), st.text('ab",', max_size=20)), min_size=1, max_size=9
    )
)
def test_good_lines(rows):
    """Those that csv.writer would write."""
    lines = [f'{a},{b / 10**6},"{text.replace(chr(34), 2 * chr(34))}",{a}' for a, b, text in rows]
    assert not isinstance(assert_same(lines, ["int64", "float32", "string", "float64"]), str)
