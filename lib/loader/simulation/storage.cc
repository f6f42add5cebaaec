#include "loader/simulation/storage.h"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace shardkit::loader {
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
