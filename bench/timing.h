// Alternating measurements. A machine's speed drifts, so only figures taken in turn within one run are compared.
#pragma once

#include <time.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace shardkit::bench {

inline double Seconds(const std::function<void()>& work) {
  const auto begin = std::chrono::steady_clock::now();
  work();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

inline double Median(std::vector<double> values) {
  std::ranges::sort(values);
  return values[values.size() / 2];
}

// Processor seconds of the whole process. Unlike wall time, they hardly depend on other work of the machine.
inline double ProcessorSeconds() {
  timespec time;
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

struct Contender {
  std::string name;
  std::function<void()> work;
  std::vector<double> seconds;
  std::vector<double> processor_seconds;
  std::function<void()> prepare = [] {};  // before each measurement
};

// One warm-up round, then `rounds` rounds in which every contender runs once, in turn.
inline void RunAlternating(std::vector<Contender>& contenders, int rounds) {
  for (int round = -1; round < rounds; ++round) {
    for (Contender& contender : contenders) {
      contender.prepare();
      const double processor = ProcessorSeconds();
      const double seconds = Seconds(contender.work);
      if (round < 0) continue;
      contender.seconds.push_back(seconds);
      contender.processor_seconds.push_back(ProcessorSeconds() - processor);
    }
  }
}

// How many times faster the contender was than the yardstick in the same round, as the median over the rounds.
inline double SpeedRatio(const Contender& contender, const Contender& yardstick) {
  std::vector<double> ratios;
  for (size_t i = 0; i < contender.seconds.size(); ++i) {
    ratios.push_back(yardstick.seconds[i] / contender.seconds[i]);
  }
  return Median(ratios);
}

// The same for processor time.
inline double ProcessorRatio(const Contender& contender, const Contender& yardstick) {
  std::vector<double> ratios;
  for (size_t i = 0; i < contender.seconds.size(); ++i) {
    ratios.push_back(yardstick.processor_seconds[i] / contender.processor_seconds[i]);
  }
  return Median(ratios);
}

// One JSON line per figure, for bench/run to collect.
inline void Report(const std::string& figure, double value, const std::string& unit) {
  std::printf("{\"figure\": \"%s\", \"value\": %.6g, \"unit\": \"%s\"}\n", figure.c_str(), value, unit.c_str());
  std::fflush(stdout);
}

template <typename T>
T Must(absl::StatusOr<T> value) {
  if (!value.ok()) {
    std::fprintf(stderr, "%s\n", std::string(value.status().message()).c_str());
    std::exit(1);
  }
  return *std::move(value);
}
inline void Must(const absl::Status& status) {
  if (status.ok()) return;
  std::fprintf(stderr, "%s\n", std::string(status.message()).c_str());
  std::exit(1);
}

}  // namespace shardkit::bench
