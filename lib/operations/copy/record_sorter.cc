#include "operations/copy/record_sorter.h"

#include <algorithm>
#include <bit>

#include "base/endian.h"
#include "base/errors.h"
#include "base/exceptions.h"
#include "base/status_macros.h"

namespace shardkit::operations {
namespace {

constexpr size_t kHeadBytes = 16;  // number and length, in the file
constexpr int kBucketBits = 14;
constexpr size_t kWriteBytes = size_t{1} << 20;
constexpr int kFileShift = 64 - std::bit_width(RecordSorter::kFiles - 1);

absl::Status Changed(const std::string& path) {
  return DataLoss(path, ": the temporary file is not as it was written: run this again, on a sound disk");
}

}  // namespace

RecordSorter::RecordSorter(FileSystem& file_system, std::function<std::string(size_t)> path_of, uint64_t memory,
                           const Cancellation* cancellation)
    : file_system_(file_system), path_of_(std::move(path_of)), memory_(memory), cancellation_(cancellation) {}

RecordSorter::~RecordSorter() {
  opened_.reset();
  for (File& file : files_) (void)Guarded("giving up", [&] { return RemoveFile(file); });
}

absl::Status RecordSorter::RemoveFile(File& file) {
  file.written.reset();
  const std::string path = std::exchange(file.path, {});
  return path.empty() ? absl::OkStatus() : file_system_.RemoveFile(path);
}

absl::Status RecordSorter::Add(uint64_t number, std::string_view record) {
  // Sorting takes as many entries again.
  const uint64_t used = records_.size() + 8 + record.size() + 2 * sizeof(Entry) * (entries_.size() + 1);
  if (!entries_.empty() && used > memory_) SHARDKIT_RETURN_IF_ERROR(Spill());
  // Growing step by step would hold the records twice in the end. Memory that is not used costs nothing.
  if (used > memory_ / 8) records_.reserve(std::max<uint64_t>(memory_, used));
  entries_.push_back({number, records_.size()});
  StoreLittle(records_.Extend(8), static_cast<uint64_t>(record.size()));
  records_.Append(record);
  ++count_;
  return absl::OkStatus();
}

void RecordSorter::SortEntries() {
  const auto before = [](const Entry& a, const Entry& b) { return a.number < b.number; };
  if (std::ranges::is_sorted(entries_, before)) return;
  // Numbers are hashes or ordinals, and so spread evenly: most of the work is to scatter them by their upper bits.
  const auto ends_of_range = std::ranges::minmax(entries_, before);
  const uint64_t least = ends_of_range.min.number, span = ends_of_range.max.number - least;
  const int unused = std::max(0, static_cast<int>(std::bit_width(span)) - kBucketBits);
  const auto bucket = [least, unused](const Entry& entry) { return (entry.number - least) >> unused; };
  std::vector<size_t> ends((size_t{1} << kBucketBits) + 1);
  for (const Entry& entry : entries_) ++ends[bucket(entry) + 1];
  for (size_t i = 1; i < ends.size(); ++i) ends[i] += ends[i - 1];
  scattered_.resize(entries_.size());
  for (const Entry& entry : entries_) scattered_[ends[bucket(entry)]++] = entry;
  entries_.swap(scattered_);
  // The beginnings of the buckets have become their ends.
  size_t begin = 0;
  for (size_t i = 0; i + 1 < ends.size(); ++i) {
    std::ranges::stable_sort(std::span(entries_).subspan(begin, ends[i] - begin), before);
    begin = ends[i];
  }
}

absl::Status RecordSorter::Spill() {
  SortEntries();
  spilled_ = true;
  for (auto begin = entries_.begin(); begin != entries_.end();) {
    const size_t file = begin->number >> kFileShift;
    const auto end =
        std::find_if(begin, entries_.end(), [file](const Entry& entry) { return entry.number >> kFileShift != file; });
    SHARDKIT_RETURN_IF_ERROR(Spill({begin, end}, files_[file]));
    begin = end;
  }
  entries_.clear();
  records_.clear();
  return absl::OkStatus();
}

absl::Status RecordSorter::Spill(std::span<const Entry> entries, File& file) {
  if (file.written == nullptr) {
    std::string path = path_of_(static_cast<size_t>(&file - files_.data()));
    SHARDKIT_ASSIGN_OR_RETURN(file.written, file_system_.Create(path));
    file.path = std::move(path);
  }
  Run run;
  run.begin = file.written->size();
  StreamingHash hash;
  std::string piece;
  const auto flush = [&]() -> absl::Status {
    if (cancellation_ != nullptr) SHARDKIT_RETURN_IF_ERROR(cancellation_->Check("sorting"));
    hash.Update(piece);
    SHARDKIT_RETURN_IF_ERROR(file.written->Append(piece));
    piece.clear();
    return absl::OkStatus();
  };
  for (const Entry& entry : entries) {
    const char* const place = records_.data() + entry.place;
    AppendLittle(piece, entry.number);
    piece.append(place, 8 + LoadLittle<uint64_t>(place));
    if (piece.size() >= kWriteBytes) SHARDKIT_RETURN_IF_ERROR(flush());
  }
  SHARDKIT_RETURN_IF_ERROR(flush());
  run.end = file.written->size();
  run.hash = hash.Digest();
  file.runs.push_back(std::move(run));
  return absl::OkStatus();
}

absl::Status RecordSorter::Sort() {
  if (!spilled_) {
    SortEntries();
    return absl::OkStatus();
  }
  if (!entries_.empty()) SHARDKIT_RETURN_IF_ERROR(Spill());
  records_ = Buffer();
  entries_ = {};
  scattered_ = {};
  for (File& file : files_) {
    if (file.written) SHARDKIT_RETURN_IF_ERROR(file.written->Close());
  }
  return absl::OkStatus();
}

// Begins with the runs of the next file. Not after the last.
absl::Status RecordSorter::OpenNextFile() {
  File& file = files_[file_++];
  if (file.written == nullptr) return absl::OkStatus();
  SHARDKIT_ASSIGN_OR_RETURN(opened_, file_system_.OpenForReading(file.path, ReadMode::kBuffered, file.written->size()));
  if (opened_->size() != file.written->size()) return Changed(file.path);
  runs_ = std::move(file.runs);
  // Small pieces would cost more than a few bytes beyond the limit, which takes thousands of runs to pass.
  read_bytes_ = static_cast<size_t>(std::clamp<uint64_t>(memory_ / runs_.size(), 16 << 10, 1 << 20));
  for (size_t i = 0; i < runs_.size(); ++i) {
    SHARDKIT_ASSIGN_OR_RETURN(const bool any, Advance(runs_[i]));
    if (any) heap_.push_back(i);
  }
  std::ranges::make_heap(heap_, [this](size_t a, size_t b) { return Later(a, b); });
  return absl::OkStatus();
}

bool RecordSorter::Later(size_t a, size_t b) const {
  return runs_[a].number != runs_[b].number ? runs_[a].number > runs_[b].number : a > b;
}

// Makes the buffer hold the next `bytes` bytes of the run.
absl::Status RecordSorter::Fill(Run& run, size_t bytes) const {
  if (run.buffer.size() - run.taken >= bytes) return absl::OkStatus();
  run.buffer.erase(0, run.taken);
  run.taken = 0;
  const size_t held = run.buffer.size();
  const uint64_t more = std::min<uint64_t>(std::max(bytes - held, read_bytes_), run.end - run.begin);
  if (held + more < bytes) return Changed(opened_->path());
  run.buffer.resize(held + more);
  const std::span<char> read(run.buffer.data() + held, more);
  SHARDKIT_RETURN_IF_ERROR(opened_->ReadAt(run.begin, read));
  run.read.Update({read.data(), read.size()});
  run.begin += more;
  if (run.begin == run.end && run.read.Digest() != run.hash) {
    return Changed(opened_->path());
  }
  return absl::OkStatus();
}

// Takes the run's next record. False at its end.
absl::StatusOr<bool> RecordSorter::Advance(Run& run) const {
  run.taken += run.length;
  run.length = 0;
  if (run.taken == run.buffer.size() && run.begin == run.end) return false;
  SHARDKIT_RETURN_IF_ERROR(Fill(run, kHeadBytes));
  run.number = LoadLittle<uint64_t>(run.buffer.data() + run.taken);
  const auto length = LoadLittle<uint64_t>(run.buffer.data() + run.taken + 8);
  // Checked before the hash of the run can be.
  if (length > run.buffer.size() - run.taken + run.end - run.begin) {
    return Changed(opened_->path());
  }
  run.taken += kHeadBytes;
  SHARDKIT_RETURN_IF_ERROR(Fill(run, length));
  run.length = length;
  return true;
}

absl::StatusOr<bool> RecordSorter::Next(uint64_t* number, std::string_view* record) {
  if (!spilled_) {
    if (next_ == entries_.size()) return false;
    const Entry& entry = entries_[next_++];
    *number = entry.number;
    const char* const place = records_.data() + entry.place;
    *record = {place + 8, LoadLittle<uint64_t>(place)};
    return true;
  }
  const auto later = [this](size_t a, size_t b) { return Later(a, b); };
  if (!heap_.empty()) {
    std::ranges::pop_heap(heap_, later);
    SHARDKIT_ASSIGN_OR_RETURN(const bool more, Advance(runs_[heap_.back()]));
    if (more) {
      std::ranges::push_heap(heap_, later);
    } else {
      runs_[heap_.back()].buffer = {};
      heap_.pop_back();
    }
  }
  while (heap_.empty()) {
    if (opened_) {
      opened_.reset();
      SHARDKIT_RETURN_IF_ERROR(RemoveFile(files_[file_ - 1]));
    }
    if (file_ == kFiles) return false;
    SHARDKIT_RETURN_IF_ERROR(OpenNextFile());
  }
  const Run& run = runs_[heap_.front()];
  *number = run.number;
  *record = std::string_view(run.buffer).substr(run.taken, run.length);
  return true;
}

}  // namespace shardkit::operations
