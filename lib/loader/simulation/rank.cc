#include "loader/simulation/rank.h"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <utility>

#include "loader/engine/reading_policy.h"
#include "loader/plan/section_order.h"
#include "shardkit/dataset_reader.h"

namespace shardkit::loader {
namespace {

// Opening a shard: its head and its tail, which are asked for together.
constexpr uint64_t kShardRequests = 2;
constexpr uint64_t kShardBytes = uint64_t{108} << 10;

// The first read of an index; what it has more, a second one reads.
constexpr uint64_t kIndexAtOnce = uint64_t{1} << 20;

// Of a block and of a sample's blob in an index, of a page of it, and of a shard in a list.
constexpr uint64_t kIndexBlockBytes = 64;
constexpr uint64_t kIndexSampleBytes = 8;
constexpr uint64_t kIndexPageBytes = uint64_t{64} << 10;
constexpr uint64_t kListedShardBytes = 80;

uint64_t IndexBytes(const shardkit::Plan& plan) {
  uint64_t bytes = 0;
  for (const PlanDataset& dataset : plan.datasets()) {
    bytes += dataset.block_count() * kIndexBlockBytes + dataset.samples() * kIndexSampleBytes;
  }
  return bytes;
}

uint64_t SampleBytes(const shardkit::Plan& plan) {
  uint64_t bytes = 0, samples = 0;
  for (const PlanDataset& dataset : plan.datasets()) {
    bytes += dataset.bytes();
    samples += dataset.samples();
  }
  return bytes / std::max<uint64_t>(samples, 1) + 1;
}

}  // namespace

SimulatedRank::SimulatedRank(SimulatedJob& job, uint64_t rank, uint64_t world_size, uint64_t node)
    : job_(job),
      node_(node),
      sample_bytes_(SampleBytes(job.plan)),
      block_bytes_(BlockBytes(job.plan)),
      window_bytes_(WindowBytes(job.plan)),
      slow_threads_(SlowReadThreads(job.options.storage.latency, block_bytes_)),
      read_threads_(job.options.read_threads > 0 ? job.options.read_threads
                                                 : std::max(kMostReadThreads, slow_threads_)),
      planner_(rank, world_size, job.places, {}, job.plan),
      blocks_(BlockMemory(job.options.memory_bytes), StoredBytes(job.plan)),
      tuner_(job.options.read_threads == 0 && slow_threads_ == 0,
             job.options.read_threads > 0 ? job.options.read_threads : std::max(slow_threads_, 1),
             job.options.decode_threads, read_threads_),
      processors_(job.options.decode_threads, job.at) {
  SetReadAhead();
}

void SimulatedRank::SetReadAhead() {
  blocks_.ReadAhead(ReadAheadBytes(window_bytes_, tuner_.threads(), block_bytes_));
  blocks_.KeepUpTo(
      KeptBytes(slow_threads_ > 0 || tuner_.from_device(), blocks_.share(), window_bytes_ * job_.plan.lanes()));
}

void SimulatedRank::Open(double now) {
  SimulatedEpoch* const counts = &job_.epochs[0];
  const PlanDataset& first = job_.plan.datasets().front();
  const uint64_t index_bytes = first.shards.empty() ? IndexBytes(job_.plan) : first.shards.size() * kListedShardBytes;
  std::vector<uint64_t> reads = {0, std::min(index_bytes, kIndexAtOnce)};
  if (index_bytes > kIndexAtOnce) reads.push_back(index_bytes - kIndexAtOnce);
  ReadInTurn(now, std::move(reads), counts);
}

// Of the manifest and the index, one after the other.
void SimulatedRank::ReadInTurn(double now, std::vector<uint64_t> reads, SimulatedEpoch* counts) {
  if (reads.empty()) {
    open_ = true;
    return Advance(now);
  }
  const double end = job_.storage.Read(now, node_, reads.front(), counts);
  reads.erase(reads.begin());
  job_.at(end, [this, end, reads = std::move(reads), counts] { ReadInTurn(end, reads, counts); });
}

void SimulatedRank::Next(double now, std::function<void(double)> take) {
  taker_ = std::move(take);
  Advance(now);
}

void SimulatedRank::Advance(double now) {
  if (!open_) return;
  Deliver(now);
  Plan(now);
  StartReads(now);
  Decode(now);
}

// The pages of the index for the next section's blocks. The engine waits for them; here nobody does, as they come long
// before the blocks.
void SimulatedRank::ReadSection(double now) {
  const PlanDataset& dataset = job_.plan.datasets().front();
  if (dataset.shards.empty()) return;
  const double share = std::min(1.0, static_cast<double>(SectionBlocks(job_.plan.options(), job_.plan.lanes())) /
                                         static_cast<double>(dataset.block_count()));
  const auto bytes = static_cast<uint64_t>(share * static_cast<double>(IndexBytes(job_.plan)));
  for (uint64_t read = 0; read < bytes; read += kIndexPageBytes) {
    job_.storage.Read(now, node_, std::min(kIndexPageBytes, bytes - read), &job_.epochs[epoch_]);
  }
}

void SimulatedRank::Plan(double now) {
  const shardkit::Plan& plan = job_.plan;
  while (next_sequence_ < job_.steps && job_.failure.ok() &&
         RoomToPlan(blocks_.planned(), job_.options.memory_bytes, planned_samples_, tasks_.size(), false)) {
    if (job_.orders.size() <= epoch_) job_.orders.resize(epoch_ + 1);
    auto& order = job_.orders[epoch_];
    if (order == nullptr) order = plan.Epoch(epoch_);
    auto covering = order->Covering(plan.StepAt(0, step_));
    if (!covering.ok()) {
      job_.failure = covering.status();
      return;
    }
    order = *std::move(covering);
    if (std::exchange(order_, order) != order) ReadSection(now);
    auto task = planner_.PlanStep(*order, plan.StepAt(0, step_), epoch_);
    task->step = step_;
    task->sequence = next_sequence_++;
    task->missing = 1;
    BatchTask* const admitted = task.get();
    tasks_.push_back(std::move(task));
    planner_.Claim(*admitted, *order, blocks_);
    planner_.PointToBlocks(*admitted);
    planned_samples_ += admitted->references.size();
    if (--admitted->missing == 0) complete_.insert(admitted);
    if (++step_ == plan.StepsFrom(0)) {
      step_ = 0;
      ++epoch_;
    }
  }
}

// When the shard of a block is open. As many stay open as a DatasetReader keeps.
double SimulatedRank::OpenShardOf(double now, const BlockEntry& entry, SimulatedEpoch* counts) {
  const uint64_t shard = uint64_t{entry.key.dataset} << 32 | entry.place.shard;
  if (const auto found = shards_.find(shard); found != shards_.end()) {
    shards_used_.splice(shards_used_.begin(), shards_used_, found->second.place);
    return std::max(now, found->second.open);
  }
  if (shards_.size() >= DatasetOptions().max_open_shards) {
    shards_.erase(shards_used_.back());
    shards_used_.pop_back();
  }
  double open = now;
  for (uint64_t i = 0; i < kShardRequests; ++i) {
    open = std::max(open, job_.storage.Read(now, node_, kShardBytes / kShardRequests, counts));
  }
  shards_used_.push_front(shard);
  shards_[shard] = {open, shards_used_.begin()};
  return open;
}

void SimulatedRank::StartReads(double now) {
  const auto readers = [&] {
    if (job_.options.read_threads > 0 || decoded_any_) return tuner_.threads();
    return FirstReadThreads(tuner_.threads(), job_.options.decode_threads, read_threads_, blocks_.share(),
                            block_bytes_);
  };
  const bool reads_wait = slow_threads_ > 0 || tuner_.from_device();
  while (reading_ < readers() && !(!tasks_.empty() && FirstBatchFirst(*tasks_.front(), reads_wait))) {
    const std::shared_ptr<BlockEntry> entry = blocks_.BeginRead(Oldest());
    if (entry == nullptr) break;
    ++reading_;
    // The table counts the buffers; nobody touches this memory, so it takes none.
    entry->buffer.state().stored.resize_discard(entry->place.length);
    SimulatedEpoch* const counts = &job_.epochs[entry->tasks.front()->epoch];
    const double open = OpenShardOf(now, *entry, counts);
    job_.at(open, [this, entry, counts, open] {
      const double there = job_.storage.ReadBlock(open, node_, entry->key, entry->place.length, counts);
      job_.at(there, [this, entry, there] {
        const double rate = job_.options.check_bytes_per_second;
        processors_.Work(there, rate > 0 ? static_cast<double>(entry->place.length) / rate : 0, 1,
                         [this, entry](double end) { EndRead(end, entry); });
      });
    });
  }
  if (blocks_.TakeDropped()) std::erase_if(complete_, [](const BatchTask* task) { return task->missing > 0; });
}

void SimulatedRank::EndRead(double now, const std::shared_ptr<BlockEntry>& entry) {
  --reading_;
  const std::vector<BatchTask*> complete = blocks_.EndRead(*entry);
  complete_.insert(complete.begin(), complete.end());
  bytes_read_ += static_cast<double>(entry->place.length);
  const bool waited_for = blocks_.anything_due(Oldest()) && (taker_ != nullptr || !decoding_);
  tuner_.Update(now, static_cast<uint64_t>(bytes_read_), waited_for, job_.options.storage.latency > 0);
  SetReadAhead();
  Advance(now);
}

void SimulatedRank::Decode(double now) {
  if (decoding_ || complete_.empty()) return;
  BatchTask* const task = *complete_.begin();
  const uint64_t bytes = task->references.size() * sample_bytes_;
  if (task != tasks_.front().get() && ahead_bytes_ + bytes > BatchesAheadBytes(bytes)) return;
  complete_.erase(complete_.begin());
  task->charged = bytes;
  ahead_bytes_ += bytes;
  task->at_work = true;
  for (const auto& block : task->blocks) blocks_.Begin(*block);
  decoding_ = decoded_any_ = true;
  const auto finish = [this, task](double end) {
    for (const auto& block : task->blocks) blocks_.Done(*block, *task);
    task->blocks.clear();
    task->done = true;
    planned_samples_ -= task->references.size();
    decoding_ = false;
    Advance(end);
  };
  processors_.Work(now, static_cast<double>(task->references.size()) * job_.options.decode_seconds,
                   job_.options.decode_threads, finish);
}

void SimulatedRank::Deliver(double now) {
  if (taker_ == nullptr || tasks_.empty() || !tasks_.front()->done) return;
  ahead_bytes_ -= tasks_.front()->charged;
  job_.epochs[tasks_.front()->epoch].samples += tasks_.front()->references.size();
  tasks_.pop_front();
  std::exchange(taker_, nullptr)(now);
}

void SimulatedProcessors::Advance(double now) {
  if (threads_ > 0) each_ += (now - now_) * Rate();
  now_ = now;
}

void SimulatedProcessors::Work(double now, double seconds, int threads, std::function<void(double)> done) {
  seconds_ += seconds / count_;
  Advance(now);
  tasks_.push({each_ + seconds / threads, next_number_++, threads, std::move(done)});
  threads_ += threads;
  AwaitNext();
}

// What comes in between changes the rate, and waits once more.
void SimulatedProcessors::AwaitNext() {
  if (tasks_.empty()) return;
  const double time = now_ + std::max(0.0, tasks_.top().end - each_) / Rate();
  at_(time, [this, time, awaited = ++awaited_] {
    if (awaited != awaited_) return;
    Advance(time);
    const Task task = tasks_.top();
    tasks_.pop();
    each_ = task.end;  // without what rounding has left
    threads_ -= task.threads;
    AwaitNext();
    task.done(time);
  });
}

namespace {

// A longer range is read by several requests (ReadHints::preferred_bytes of an object store).
constexpr uint64_t kRequestBytes = uint64_t{8} << 20;

// Of the normal distribution, where 99 of 100 lie below.
constexpr double kNormal99 = 2.3263478740408408;

// Not std::normal_distribution, which differs from one standard library to another.
double Normal(std::mt19937_64& random) {
  const auto uniform = [&] { return (static_cast<double>(random() >> 11) + 0.5) * 0x1p-53; };
  const double radius = std::sqrt(-2 * std::log(uniform()));
  return radius * std::cos(2 * std::numbers::pi * uniform());
}

}  // namespace

double SimulatedStorage::Link::Pass(double begin, double bytes) {
  if (rate == 0) return begin;
  const double seconds = bytes / rate;
  free = std::max(begin, free) + seconds;
  busy += seconds;
  return free;
}

SimulatedStorage::SimulatedStorage(const SimulationOptions& options, uint64_t nodes, double share)
    : model_(options.storage),
      cache_bytes_(options.cache_bytes),
      request_seconds_(model_.requests_per_second > 0 ? 1 / (model_.requests_per_second * share) : 0),
      random_(options.seed),
      nodes_(nodes) {
  for (Node& node : nodes_) node.link.rate = model_.node_bytes_per_second;
  link_.rate = model_.bytes_per_second * share;
}

double SimulatedStorage::Request(double now, Node& node, uint64_t bytes, SimulatedEpoch* counts) {
  ++counts->requests;
  counts->bytes_fetched += static_cast<double>(bytes);
  const double begin = std::max(now, next_request_);
  next_request_ = begin + request_seconds_;
  requests_busy_ += request_seconds_;
  double latency = model_.latency;
  if (model_.latency_p99 > 0 && latency > 0) {
    latency *= std::exp(Normal(random_) / kNormal99 * std::log(model_.latency_p99 / model_.latency));
  }
  // How a request differs from the median delays it alone: the links serve the others meanwhile.
  const double typical = begin + model_.latency;
  const double through =
      std::max(node.link.Pass(typical, static_cast<double>(bytes)), link_.Pass(typical, static_cast<double>(bytes)));
  return std::max(begin + latency, through + latency - model_.latency);
}

double SimulatedStorage::Fetch(double now, Node& node, uint64_t bytes, SimulatedEpoch* counts) {
  double end = now;
  for (uint64_t begin = 0; begin < bytes; begin += kRequestBytes) {
    end = std::max(end, Request(now, node, std::min(kRequestBytes, bytes - begin), counts));
  }
  return end;
}

double SimulatedStorage::Read(double now, uint64_t node, uint64_t bytes, SimulatedEpoch* counts) {
  return Request(now, nodes_[node], bytes, counts);
}

double SimulatedStorage::ReadBlock(double now, uint64_t number, const BlockKey& block, uint64_t bytes,
                                   SimulatedEpoch* counts) {
  Node& node = nodes_[number];
  if (cache_bytes_ == 0) return Fetch(now, node, bytes, counts);
  if (const auto found = node.cached.find(block); found != node.cached.end()) {
    counts->bytes_cached += static_cast<double>(bytes);
    node.used.splice(node.used.begin(), node.used, found->second.place);
    return std::max(now, found->second.there);
  }
  const double there = Fetch(now, node, bytes, counts);
  if (bytes > cache_bytes_) return there;
  while (node.cached_bytes + bytes > cache_bytes_) {
    const auto last = node.cached.find(node.used.back());
    node.cached_bytes -= last->second.bytes;
    node.cached.erase(last);
    node.used.pop_back();
  }
  node.used.push_front(block);
  node.cached[block] = {there, bytes, node.used.begin()};
  node.cached_bytes += bytes;
  return there;
}

double SimulatedStorage::node_busy() const {
  double most = 0;
  for (const Node& node : nodes_) most = std::max(most, node.link.busy);
  return most;
}

}  // namespace shardkit::loader
