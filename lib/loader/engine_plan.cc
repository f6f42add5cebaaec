// The planning thread: turns steps of the plan into batches in flight, and asks for their blocks.
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
  for (const uint64_t position : order.RankPositions(step, options_.rank, options_.world_size)) {
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

std::shared_ptr<BlockEntry> Engine::BlockFor(const EpochOrder& order, const PlannedSample& sample, uint64_t epoch,
                                             bool exact) {
  const BlockKey key{epoch, sample.window, sample.dataset, sample.block};
  if (auto entry = blocks_.Find(key)) return entry;
  const uint64_t uses = exact ? order.BlockUses(sample.dataset, sample.window, sample.block) : BlockEntry::kUnknown;
  auto entry = blocks_.Add(key, datasets_.blocks[sample.dataset][sample.block], uses);
  LaneWindow& lane = lane_windows_[sample.dataset][sample.lane];
  if (lane.epoch != epoch || lane.window == UINT64_MAX || sample.window > lane.window) {
    blocks_.Retire(lane.blocks_before);
    lane.blocks_before = std::exchange(lane.blocks, {});
    if (lane.epoch != epoch || datasets_.readers.size() == 1) {
      blocks_.Retire(lane.blocks_before);
      lane.blocks_before.clear();
    }
    lane.epoch = epoch;
    lane.window = sample.window;
  }
  lane.blocks.push_back(entry);
  return entry;
}

void Engine::Admit(std::unique_ptr<BatchTask> task, const EpochOrder& order,
                   const std::vector<PlannedSample>& samples) {
  // Whether the rank has all samples of its lanes, so that the uses of a block can be counted down.
  const uint64_t world_size = options_.world_size;
  const bool own_lanes = plan_->lanes() % world_size == 0;
  Lock lock(mutex_);
  task->sequence = next_sequence_;
  task->missing = 1;  // keeps the batch incomplete until the end of this function
  BatchTask* const admitted = task.get();
  tasks_.push_back(std::move(task));  // first: blocks will point to it
  ++next_sequence_;
  for (size_t i = 0; i < samples.size(); ++i) {
    const uint64_t position = admitted->references[i].identity.position;
    const bool exact = (world_size == 1 || (own_lanes && !samples[i].shared)) && position < order.size();
    const std::shared_ptr<BlockEntry> entry = BlockFor(order, samples[i], admitted->epoch, exact);
    if (entry->planned_by != admitted->sequence) {
      entry->planned_by = admitted->sequence;
      entry->index_in_batch = static_cast<uint32_t>(admitted->blocks.size());
      admitted->blocks.push_back(entry);
      admitted->block_uses.push_back(0);
      blocks_.Need(*entry, *admitted);
    }
    admitted->references[i].block = entry->index_in_batch;
    ++admitted->block_uses[entry->index_in_batch];
  }
  planned_samples_ += samples.size();
  WakeReaders();
  if (--admitted->missing == 0) {
    complete_.insert(admitted);
    WakeDecoders(1);
  }
}

}  // namespace shardkit::loader
