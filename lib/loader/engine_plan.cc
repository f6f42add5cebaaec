// The planning thread: turns steps of the plan into batches in flight, and asks for their blocks.
#include <algorithm>
#include <utility>

#include "loader/engine.h"

namespace shardkit::loader {
namespace {

// The most samples planned ahead: enough to ask early for blocks of thousands of tiny samples, few enough to bound
// memory.
constexpr uint64_t kMostPlannedSamples = 1 << 16;
constexpr size_t kMostPlannedBatches = 4096;

}  // namespace

void Engine::RunPlanner() {
  uint64_t position = cursor_.position;
  for (uint64_t epoch = cursor_.epoch; options_.epochs == 0 || epoch < options_.epochs; ++epoch) {
    if (!PlanEpoch(epoch, std::exchange(position, 0))) return;
  }
  Lock lock(mutex_);
  all_planned_ = true;
  to_deliver_.notify_all();
}

bool Engine::RoomToPlan() const {
  return tasks_.empty() || (blocks_.planned() < options_.memory_bytes / 2 && planned_samples_ < kMostPlannedSamples &&
                            tasks_.size() < kMostPlannedBatches);
}

// Wakes the planner only when there is room for many batches, because waking a thread costs more than planning a batch.
void Engine::WakePlanner() {
  if (!planner_waiting_) return;
  const bool much_room = blocks_.planned() < options_.memory_bytes / 16 * 7 &&
                         planned_samples_ < kMostPlannedSamples / 8 * 7 && tasks_.size() < kMostPlannedBatches / 8 * 7;
  if (tasks_.empty() || much_room) to_plan_.notify_one();
}

// False when the loader has been stopped.
bool Engine::PlanEpoch(uint64_t epoch, uint64_t position) {
  const auto order = plan_->Epoch(epoch);
  const uint64_t steps = plan_->StepsFrom(position);
  std::vector<PlannedSample> samples;
  for (uint64_t step = 0; step < steps; ++step) {
    {
      Lock lock(mutex_);
      planner_waiting_ = true;
      to_plan_.wait(lock, [&] { return stopped_.cancelled() || RoomToPlan(); });
      planner_waiting_ = false;
    }
    if (stopped_.cancelled()) return false;
    const Step range = plan_->StepAt(position, step);
    auto task = PlanStep(*order, range, &samples);
    task->epoch = epoch;
    task->step = step;
    task->steps_left_after = steps - step - 1;
    task->cursor_after = step + 1 < steps ? Cursor{epoch, std::min(range.end, order->size()), plan_->fingerprint()}
                                          : plan_->Begin(epoch + 1);
    Admit(std::move(task), *order, samples);
  }
  return true;
}

std::unique_ptr<BatchTask> Engine::PlanStep(const EpochOrder& order, const Step& step,
                                            std::vector<PlannedSample>* samples) const {
  auto task = std::make_unique<BatchTask>();
  samples->clear();
  for (uint64_t position = step.begin + options_.rank; position < step.end; position += options_.world_size) {
    samples->push_back(order.At(position % order.size()));
    const PlannedSample& sample = samples->back();
    SampleReference reference;
    reference.in_block = sample.in_block;
    reference.identity.dataset = sample.dataset;
    reference.identity.shard = datasets_.blocks[sample.dataset][sample.block].shard;
    reference.identity.ordinal = sample.ordinal;
    reference.identity.position = position;
    task->references.push_back(reference);
  }
  return task;
}

// The block of a sample, claimed for the sample's window.
std::shared_ptr<BlockEntry> Engine::BlockFor(const EpochOrder& order, const PlannedSample& sample, uint64_t epoch,
                                             bool exact) {
  const BlockKey key{sample.dataset, sample.block};
  auto entry = blocks_.Get(key, datasets_.blocks[sample.dataset][sample.block]);
  const auto find = [&] {
    return std::ranges::find_if(
        entry->claims, [&](const WindowClaim& claim) { return claim.epoch == epoch && claim.window == sample.window; });
  };
  if (find() == entry->claims.end()) {
    // Before other windows are retired, which may release the block.
    entry->claims.push_back(
        {epoch, sample.window,
         exact ? order.BlockUses(sample.dataset, sample.window, sample.block) : WindowClaim::kUnknown});
    LaneWindow& lane = lane_windows_[sample.dataset][sample.lane];
    if (lane.epoch != epoch || lane.window == UINT64_MAX || sample.window > lane.window) {
      Retire(lane.blocks_before);
      lane.blocks_before = std::exchange(lane.blocks, {});
      if (lane.epoch != epoch || datasets_.readers.size() == 1) Retire(lane.blocks_before);
      lane.epoch = epoch;
      lane.window = sample.window;
    }
    lane.blocks.push_back({entry, epoch, sample.window});
  }
  const auto claim = find();
  if (claim->uses != WindowClaim::kUnknown && --claim->uses == 0) entry->claims.erase(claim);
  return entry;
}

void Engine::Retire(std::vector<ClaimedBlock>& claimed) {
  for (const ClaimedBlock& block : claimed) blocks_.Retire(*block.entry, block.epoch, block.window);
  claimed.clear();
}

void Engine::Admit(std::unique_ptr<BatchTask> task, const EpochOrder& order,
                   const std::vector<PlannedSample>& samples) {
  // Whether the rank has all samples of its lanes, so that the uses of a block can be counted down.
  const uint64_t world_size = options_.world_size;
  const bool own_lanes = plan_->lanes() % world_size == 0 && plan_->options().batch_size % world_size == 0;
  Lock lock(mutex_);
  task->sequence = next_sequence_;
  task->missing = 1;  // keeps the batch incomplete until the end of this function
  BatchTask* const admitted = task.get();
  tasks_.push_back(std::move(task));  // first: blocks will point to it
  ++next_sequence_;
  for (size_t i = 0; i < samples.size(); ++i) {
    const uint64_t position = admitted->references[i].identity.position;
    const bool exact = (world_size == 1 ||
                        (own_lanes && position % world_size == options_.rank && samples[i].lane < plan_->lanes())) &&
                       position < order.size();
    const std::shared_ptr<BlockEntry> entry = BlockFor(order, samples[i], admitted->epoch, exact);
    if (entry->planned_by != admitted->sequence) {
      entry->planned_by = admitted->sequence;
      entry->index_in_batch = static_cast<uint32_t>(admitted->blocks.size());
      admitted->blocks.push_back(entry);
      blocks_.Need(*entry, *admitted);
    }
    admitted->references[i].block = entry->index_in_batch;
  }
  planned_samples_ += samples.size();
  WakeReaders();
  if (--admitted->missing == 0) {
    complete_.insert(admitted);
    WakeDecoders(1);
  }
}

}  // namespace shardkit::loader
