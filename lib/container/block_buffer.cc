#include "container/block_buffer.h"

#include <atomic>

#include "base/status_macros.h"

namespace shardkit {

BlockBuffer::BlockBuffer() : state_(std::make_unique<State>()) {}
BlockBuffer::~BlockBuffer() = default;
BlockBuffer::BlockBuffer(BlockBuffer&&) noexcept = default;
BlockBuffer& BlockBuffer::operator=(BlockBuffer&&) noexcept = default;

uint64_t BlockBuffer::memory() const {
  uint64_t bytes = state_->stored.capacity() + state_->raw.capacity() + state_->record.capacity() +
                   state_->page.capacity() + 8 * state_->places.capacity() + state_->converted.capacity() +
                   8 * state_->selected.capacity() + state_->gathered.capacity() + state_->decompressor.memory();
  if (state_->mapped != nullptr) bytes += state_->read_length;
  for (const std::deque<BlockBuffer>* const buffers : {&state_->batch, &state_->parts}) {
    for (const BlockBuffer& part : *buffers) bytes += part.memory();
  }
  return bytes;
}

uint64_t container::NewReaderIdentity() {
  static std::atomic<uint64_t> last = 0;
  return last.fetch_add(1, std::memory_order_relaxed) + 1;
}

absl::Status BlockBuffer::CheckMapped() const {
  if (state_->shown != nullptr) SHARDKIT_RETURN_IF_ERROR(state_->shown->CheckMapped());
  for (const std::deque<BlockBuffer>* const buffers : {&state_->batch, &state_->parts}) {
    for (const BlockBuffer& part : *buffers) SHARDKIT_RETURN_IF_ERROR(part.CheckMapped());
  }
  return absl::OkStatus();
}

container::MappedRange container::ForgetBlock(BlockBuffer& buffer) {
  BlockBuffer::State& state = buffer.state();
  container::MappedRange range;
  if (state.mapped != nullptr) range = {state.pinned, state.mapped, state.file_offset, state.read_length};
  state.mapped = nullptr;
  state.shown = nullptr;
  state.owner = 0;
  state.pinned.reset();
  state.listed.reset();
  for (BlockBuffer& part : state.parts) ForgetBlock(part);
  return range;
}

}  // namespace shardkit
