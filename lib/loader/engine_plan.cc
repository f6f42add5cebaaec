// The planning thread: turns steps of the plan into batches in flight, and asks for their blocks.
#include <algorithm>
#include <utility>

#include "base/errors.h"
#include "loader/engine.h"
#include "loader/reading_policy.h"

namespace shardkit::loader {
void Engine::RunPlanner() {
  uint64_t position = cursor_.position;
  for (uint64_t epoch = cursor_.epoch; options_.epochs == 0 || epoch < options_.epochs; ++epoch) {
    if (!PlanEpoch(epoch, std::exchange(position, 0))) return;
  }
  Lock lock(mutex_);
  all_planned_ = true;
  to_deliver_.notify_all();
}

bool Engine::RoomToPlan(bool much) const {
  return loader::RoomToPlan(blocks_.planned(), options_.memory_bytes, planned_samples_, tasks_.size(), much);
}

// Wakes the planner only when there is room for many batches, because waking a thread costs more than planning a batch.
void Engine::WakePlanner() {
  if (!planner_waiting_) return;
  if (RoomToPlan(true)) to_plan_.notify_one();
}

// False when the loader has been stopped, or the epoch's blocks cannot be read.
bool Engine::PlanEpoch(uint64_t epoch, uint64_t position) {
  auto order = plan_->Epoch(epoch);
  const uint64_t steps = plan_->StepsFrom(position);
  std::vector<PlannedSample> samples;
  for (uint64_t step = 0; step < steps; ++step) {
    {
      Lock lock(mutex_);
      planner_waiting_ = true;
      to_plan_.wait(lock, [&] { return stopped_.cancelled() || RoomToPlan(false); });
      planner_waiting_ = false;
    }
    if (stopped_.cancelled()) return false;
    const Step range = plan_->StepAt(position, step);
    auto covering = order->Covering(range);
    if (!covering.ok()) {
      auto failed = std::make_unique<BatchTask>();
      failed->status = Annotate(covering.status(), "loader: planning");
      failed->done = true;
      AdmitFailed(std::move(failed));
      return false;
    }
    order = *std::move(covering);
    auto task = planner_.PlanStep(*order, range, epoch, &samples);
    task->epoch = epoch;
    task->step = step;
    task->steps_left_after = steps - step - 1;
    task->cursor_after =
        step + 1 < steps ? plan_->At(epoch, std::min(range.end, order->size())) : plan_->Begin(epoch + 1);
    Admit(std::move(task), *order, samples);
  }
  return true;
}

// Delivered when it is its turn, as the errors of blocks are. Nothing is planned after it.
void Engine::AdmitFailed(std::unique_ptr<BatchTask> task) {
  Lock lock(mutex_);
  task->sequence = next_sequence_++;
  tasks_.push_back(std::move(task));
  to_deliver_.notify_all();
}

void Engine::Admit(std::unique_ptr<BatchTask> task, const EpochOrder& order,
                   const std::vector<PlannedSample>& samples) {
  Lock lock(mutex_);
  task->sequence = next_sequence_;
  task->missing = 1;  // keeps the batch incomplete until the end of this function
  BatchTask* const admitted = task.get();
  tasks_.push_back(std::move(task));  // first: blocks will point to it
  ++next_sequence_;
  planner_.Claim(*admitted, order, samples, blocks_);
  planned_samples_ += samples.size();
  WakeReaders();
  if (--admitted->missing == 0) {
    complete_.insert(admitted);
    WakeDecoders(1);
  }
}

}  // namespace shardkit::loader
