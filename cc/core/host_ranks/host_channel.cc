#include <string>
#include <utility>

#include "cc/core/host_ranks/host_group.h"
#include "cc/core/host_ranks/host_layout.h"

namespace tf_booster {

HostChannel::HostChannel(HostGroup* group, std::string name, uint64_t key, ChannelSlot* slot)
    : group_(group), name_(std::move(name)), key_(key), slots_(group->size()), parts_(group->size()) {
  slots_[group->rank()] = slot;
}

ChannelSlot* HostChannel::SlotOf(int32_t rank) {
  if (slots_[rank] == nullptr) {
    for (ChannelSlot& slot : group_->heads_[rank]->slots) {
      const uint64_t key = slot.key.load(std::memory_order_acquire);
      if (key == key_) slots_[rank] = &slot;
      if (key == key_ || key == 0) break;
    }
  }
  return slots_[rank];
}

int32_t HostChannel::MissingRank() {
  for (int32_t rank = 0; rank < group_->size(); ++rank) {
    ChannelSlot* const slot = SlotOf(rank);
    if (slot == nullptr || slot->rounds.load(std::memory_order_acquire) < round_) return rank;
  }
  return -1;
}

Status HostChannel::Prepare(int64_t size, char** message) {
  if (busy_.exchange(true)) {
    return Status(StatusCode::kFailedPrecondition,
                  "the collective '" + name_ +
                      "' is under way already; run the graph, or others with a collective of this name, one at a time");
  }
  ChannelSlot* const slot = slots_[group_->rank()];
  ChannelSlot::Message* const header = &slot->messages[(round_ + 1) % 2];
  MappedPart* const part = &parts_[group_->rank()][(round_ + 1) % 2];
  if (part->size() < size) {
    // A quarter more than is needed, so that a number of ids that varies settles soon.
    const int64_t capacity = (size + size / 4 + kPage) / kPage * kPage;
    std::lock_guard<std::mutex> lock(group_->memory_mutex_);
    MappedPart larger;
    const Status status = group_->own_->Append(capacity, &larger);
    if (!status.ok()) {
      busy_ = false;
      return status;
    }
    group_->own_->Discard(std::exchange(*part, std::move(larger)));
    header->offset = part->offset();
    header->capacity = part->size();
  }
  header->size = size_ = size;
  *message = part->data();
  return Status();
}

void HostChannel::Send() {
  ++round_;
  slots_[group_->rank()]->rounds.store(round_, std::memory_order_release);
  group_->Ring();
}

Status HostChannel::Receive(int32_t rank, const char** message, int64_t* size) {
  const ChannelSlot::Message& header = SlotOf(rank)->messages[round_ % 2];
  MappedPart* const part = &parts_[rank][round_ % 2];
  if (rank != group_->rank() && (part->offset() != header.offset || part->size() != header.capacity)) {
    MappedPart mapped;
    if (header.capacity > 0) {
      TFB_RETURN_IF_ERROR(group_->opened_[rank]->Map(header.offset, header.capacity, &mapped));
    }
    *part = std::move(mapped);
  }
  *message = part->data();
  *size = header.size;
  return Status();
}

void HostChannel::Finish() { busy_ = false; }

}  // namespace tf_booster
