// Attributes that ops of an exchange between ranks have in common: see table_exchange_ops.cc.
#ifndef TF_BOOSTER_CC_TF_OPS_EXCHANGE_ATTRS_H_
#define TF_BOOSTER_CC_TF_OPS_EXCHANGE_ATTRS_H_

// P probes: `dims` of their tables, `groups` of their codes, `counted` those that an update follows; segment_probes and
// segment_fields name the fields of each, in order.
#define TFB_EXCHANGE_ATTRS                    \
  Attr("P: int >= 1")                         \
      .Attr("dims: list(int) >= 1")           \
      .Attr("groups: list(int) >= 1")         \
      .Attr("counted: list(bool) >= 1")       \
      .Attr("segment_probes: list(int) >= 1") \
      .Attr("segment_fields: list(int) >= 1") \
      .Attr("ranks: int >= 1")                \
      .Attr("partition: {'hash', 'mod'} = 'hash'")

// lane_streams: for each lane the gradient; lane_probes and lane_segments: which segment of which of the P probes.
#define TFB_GRADIENT_ATTRS              \
  Attr("M: int >= 1")                   \
      .Attr("P: int >= 1")              \
      .Attr("dims: list(int) >= 1")     \
      .Attr("by_row: list(bool) >= 1")  \
      .Attr("lane_streams: list(int)")  \
      .Attr("lane_probes: list(int)")   \
      .Attr("lane_segments: list(int)") \
      .Attr("groups: list(int) >= 1")   \
      .Attr("ranks: int >= 1")          \
      .Attr("num_notes: int >= 0 = 0")

#endif  // TF_BOOSTER_CC_TF_OPS_EXCHANGE_ATTRS_H_
