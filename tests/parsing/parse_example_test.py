"""ParseExampleV2 and its older forms: TensorFlow's parser and ours, over generated specs and records."""

import example_compare
from example_cases import HypothesisDraw, a_batch, a_record, a_spec, names_for
from example_compare import check_same
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

given_data = given(data=st.data())
some = settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))


@some
@given_data
def test_batches(stock, level, data):
    draw = HypothesisDraw(data)
    spec = a_spec(draw)
    records = a_batch(draw, spec)
    check_same(stock, example_compare.parse_example_v2, spec, records, names_for(draw, records))


@some
@given_data
def test_one_record_without_a_batch(stock, level, data):
    draw = HypothesisDraw(data)
    spec = a_spec(draw)
    check_same(stock, example_compare.parse_example_v2, spec, a_record(draw, spec))


@some
@given_data
def test_the_first_parse_example(stock, data):
    draw = HypothesisDraw(data)
    spec = a_spec(draw, ragged=False)
    records = a_batch(draw, spec)
    check_same(stock, example_compare.parse_example_v1, spec, records, names_for(draw, records))


@some
@given_data
def test_parse_single_example(stock, data):
    draw = HypothesisDraw(data)
    spec = a_spec(draw, ragged=False)
    check_same(stock, example_compare.parse_single_example, spec, a_record(draw, spec))
