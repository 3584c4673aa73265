"""Records that are no Examples: what TensorFlow refuses is refused with its code and message, what it reads is read, and
where it dies there is an error. TensorFlow runs in a process of its own."""

import example_records as wire
import fuzz_parse_example
import pytest
from example_compare import Feature


def test_broken_records_by_chance(stock, level):
    check_by_chance(stock, fuzz_parse_example.a_case, sum(level.encode()))


def test_broken_sequences_by_chance(stock):
    check_by_chance(stock, fuzz_parse_example.a_sequence_case, 1)


def check_by_chance(stock, make, seed):
    # So many cases, and not so many seconds: a busy machine must not fail it.
    tried, cases, differences = fuzz_parse_example.fuzz(stock, float("inf"), seed, make, most=200)
    assert not cases, "\n\n".join(f"{case!r}\n{how}" for case, how in zip(cases, differences))
    assert tried == 200


def entry(kind, payload):
    """A record with one feature, "k", whose list is written by hand."""
    return wire.example([wire.entry(b"k", wire.tag(wire.LIST_FIELD[kind], 2) + payload)])


INT64, FLOAT, STRING = (Feature("k", "sparse", dtype) for dtype in ("int64", "float", "string"))
PAIRS = Feature("k", "dense", "int64", (None, 2), (0,))
ONE = Feature("k", "dense", "int64", ())
NO_INT64, NO_FLOAT, NO_STRING = (Feature("k", "dense", dtype, (0,)) for dtype in ("int64", "float", "string"))

# What the record is, the spec, the record.
BROKEN = {
    "no record": (INT64, b""),
    "no features": (ONE, wire.example([])),
    "text": (INT64, b"this is no Example"),
    "a string of 2 GiB, as its length says": (STRING, entry("string", b"\x06\n" + wire.varint(2**31))),
    "a string of 4 GiB less a byte": (STRING, entry("string", b"\x06\n" + wire.varint(2**32 - 1))),
    "a string that is longer than the record": (STRING, entry("string", b"\x03\n\x7fx")),
    "a string's length without the string": (STRING, entry("string", b"\x02\n\x01")),
    "floats of 256 MiB, as their length says": (FLOAT, entry("float", b"\x06\n" + wire.varint(2**28))),
    "floats that are no multiple of four bytes": (FLOAT, entry("float", b"\x08\n\x06abcdef")),
    "ids of 4 GiB, as their length says": (INT64, entry("int64", b"\x06\n" + wire.varint(2**32 - 1))),
    "an id cut off": (INT64, entry("int64", b"\x04\n\x02\x80\x80")),
    "an id of ten bytes with overflow bits": (INT64, entry("int64", b"\x0c\n\x0a" + b"\xff" * 9 + b"\x7f")),
    "an id of eleven bytes": (INT64, entry("int64", b"\x0d\n\x0b" + b"\xff" * 10 + b"\x01")),
    "packed ids, then one by itself": (INT64, entry("int64", b"\x05\n\x01\x07\x08\x09")),
    "an id by itself, then packed ones": (INT64, entry("int64", b"\x05\x08\x09\n\x01\x07")),
    "a list of another type": (INT64, entry("float", b"\x06\n\x04abcd")),
    "a feature of a type that does not exist": (INT64, wire.example([wire.entry(b"k", b"\x22\x00")])),
    "a list longer than its feature": (INT64, entry("int64", b"\x7f\n\x01\x07")),
    "an entry longer than its map": (INT64, b"\n\x05\n\x7f\n\x01k"),
    "a map longer than its record": (INT64, b"\n\x7f" + wire.example([wire.entry(b"k", b"")])[2:]),
    "three ids for rows of two": (PAIRS, wire.simple(k=("int64", [1, 2, 3]))),
    "two ids where one is wanted": (ONE, wire.simple(k=("int64", [1, 2]))),
    "an id where rows have none": (NO_INT64, wire.simple(k=("int64", [1]))),
    "a float where rows have none": (NO_FLOAT, wire.simple(k=("float", [1.5]))),
    "a float by itself where rows have none": (NO_FLOAT, entry("float", b"\x05\r\0\0\xc0?")),
    "a string where rows have none": (NO_STRING, wire.simple(k=("string", [b"x"]))),
    "the key twice": (ONE, wire.example([wire.entry(b"k", wire.feature("int64", [i])) for i in (1, 2)])),
    "the key twice, the last time empty": (
        INT64,
        wire.example([wire.entry(b"k", wire.feature("int64", [1])), wire.entry(b"k", b"")]),
    ),
    "a group": (INT64, b"\x0b\x0c"),
    "groups in groups": (INT64, b"\x0b" * 1000),
}


@pytest.mark.parametrize("op", ["parse_example_v2", "parse_example_v1", "parse_single_example", "scalar"])
@pytest.mark.parametrize("what", BROKEN)
def test_broken_record(stock, what, op):
    feature, record = BROKEN[what]
    one = op in ("parse_single_example", "scalar")
    case = (
        "parse_example_v2" if op == "scalar" else op,
        ((feature,),),
        record if one else [wire.simple(k=(feature.dtype, [])), record],
        None if op == "parse_single_example" else (),
    )
    assert fuzz_parse_example.compare(stock, case) == ""


def test_where_tensorflow_dies_there_is_an_error(stock):
    feature, record = BROKEN["a string of 2 GiB, as its length says"]
    assert stock.outcome("parse_example_v2", (feature,), [record])[0] == "died"
    assert stock.outcome("parse_example_v2", (feature,), [])[0] == "ok"  # And the next one is served.


# A list of strings, or a context, that is no list; what TensorFlow makes of it.
LONG = {
    "a string that is longer than its list": b"\x03\n\x7fx",
    "a string of 2 GiB, as its length says": b"\x06\n" + wire.varint(2**31),
    "a string of 4 GiB less a byte": b"\x06\n" + wire.varint(2**32 - 1),
    "a list longer than its step": b"\x7f\n\x01x",
    "text": b"\x04text",
}


@pytest.mark.parametrize("kind", ["dense", "sparse", "ragged"])
@pytest.mark.parametrize("what", LONG)
def test_broken_sequence(stock, what, kind):
    feature = wire.tag(1, 2) + LONG[what]
    in_list = wire.feature_lists([wire.entry(b"k", wire.feature_list([feature]))])
    in_context = wire.example([wire.entry(b"k", feature)])
    strings = (Feature("k", kind, "string"),)
    for spec, record in ((strings, ()), in_context), (((), strings), in_list):
        for records in (record, [record]):
            case = ("parse_sequence_example_v2", spec, records, ())
            assert fuzz_parse_example.compare(stock, case) == ""


def test_where_tensorflow_dies_of_a_sequence_there_is_an_error(stock):
    record = wire.example([wire.entry(b"k", wire.tag(1, 2) + LONG["a string that is longer than its list"])])
    assert stock.outcome("parse_sequence_example_v2", (STRING,), (), [record])[0] == "died"
