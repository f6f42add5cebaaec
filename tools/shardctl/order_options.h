// The options of plan and bench that decide which samples a step has.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "command_line.h"
#include "shardkit/loader.h"

namespace shardctl {

class OrderOptions {
 public:
  OrderOptions();

  // `shuffle_buffer` is the default that --help shows for --shuffle-buffer.
  void AddTo(CommandLine* line, const std::string& shuffle_buffer = "256MiB");

  // --rank, for commands that are about one rank.
  void AddRankTo(CommandLine* line);

  // Combines the parsed values for these datasets. InvalidArgument errors name the option.
  absl::Status Finish(const std::vector<std::string>& paths);

  // Says on stderr which columns stand in clumps that the shuffle buffer does not mix.
  void NoteClumps() const;

  std::vector<shardkit::LoaderDataset> datasets;
  shardkit::PlanOptions plan;
  uint64_t world_size = 1;
  std::optional<uint64_t> rank;
  bool shuffle_buffer_given() const { return shuffle_buffer_ != UINT64_MAX; }

 private:
  size_t order_ = 0;
  size_t remainder_ = 0;
  uint64_t shuffle_buffer_ = UINT64_MAX;  // bytes, when given
  uint64_t lanes_ = 0;
  std::optional<std::string> proportion_;
  std::optional<std::string> repeat_;
  std::optional<std::string> choose_;
  std::optional<std::string> at_;
};

// Samples of an epoch that shardkit::ReadAmplification counts.
inline constexpr uint64_t kSamplesCounted = 4'000'000;

std::string OrderName(shardkit::SampleOrder order);
std::string RemainderName(shardkit::Remainder remainder);

// "a,b,c" -> a, b and c; an empty text is one empty part.
std::vector<std::string> SplitAtCommas(const std::string& text);

}  // namespace shardctl
