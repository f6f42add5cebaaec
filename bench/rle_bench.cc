// Measures the RLE codec on masks like SA-1B's: 1500 x 2250 pixels, about 418 runs, a few percent foreground.
//
//   rle_bench [SECONDS_PER_PAIR]
//   rle_bench --texts               the masks as COCO strings, one a line, for rle_vs_pycocotools.py
//
// Makes its own input, the same every time, and checks the results. Each line compares two functions that
// alternate in one run, and prints the medians and their ratio. Only ratios can be compared across machines.
#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <random>
#include <string>
#include <vector>

#include "shardkit/rle.h"

namespace shardkit {
namespace {

constexpr uint32_t kHeight = 1500;
constexpr uint32_t kWidth = 2250;
constexpr size_t kMasks = 100;
constexpr size_t kColumns = 209;  // two runs each

// One blob per mask. Its upper and lower edges move by a pixel or two from column to column.
RleList MakeMasks() {
  std::mt19937_64 random(1);
  RleList masks;
  for (size_t i = 0; i < kMasks; ++i) {
    Rle rle{kHeight, kWidth, {}};
    const uint64_t left = random() % (kWidth - kColumns);
    const double center = 400 + static_cast<double>(random() % 700);
    uint64_t last = 0;
    double wander = 0;
    for (size_t x = 0; x < kColumns; ++x) {
      const double t = (static_cast<double>(x) + 0.5) / kColumns * 2 - 1;
      const double radius = 250 * std::sqrt(1 - t * t) + 1;
      wander += static_cast<double>(random() % 3) - 1;
      const uint64_t top = static_cast<uint64_t>(std::max(0.0, center + wander * 0.7 - radius));
      const uint64_t bottom = static_cast<uint64_t>(std::min(1499.0, center + wander * 0.5 + radius));
      const uint64_t column = (left + x) * kHeight;
      rle.runs.push_back(static_cast<uint32_t>(column + top - last));
      rle.runs.push_back(static_cast<uint32_t>(bottom - top));
      last = column + bottom;
    }
    rle.runs.push_back(static_cast<uint32_t>(uint64_t{kHeight} * kWidth - last));
    masks.Append(rle);
  }
  return masks;
}

// The straightforward decoder: one character at a time.
void SimpleRunsFromText(const std::string& text, std::vector<uint32_t>* runs) {
  for (size_t i = 0; i < text.size();) {
    int64_t value = 0;
    int shift = 0;
    bool more = true;
    while (more) {
      const int group = text[i++] - 48;
      value |= static_cast<int64_t>(group & 31) << shift;
      shift += 5;
      more = (group & 32) != 0;
      if (!more && (group & 16) != 0) value |= static_cast<int64_t>(~uint64_t{0} << shift);
    }
    if (runs->size() > 2) value += (*runs)[runs->size() - 2];
    runs->push_back(static_cast<uint32_t>(value));
  }
}

// The straightforward rasteriser: a column-major array as in pycocotools, one memset per run.
void ColumnMajor(const RleView& mask, uint8_t* out) {
  uint8_t value = 0;
  for (const uint32_t run : mask.runs) {
    std::memset(out, value, run);
    out += run;
    value ^= 1;
  }
}

void Require(bool condition, const char* what) {
  if (condition) return;
  std::fprintf(stderr, "rle_bench: wrong result: %s\n", what);
  std::exit(1);
}

double seconds_per_pair = 1.0;

double Median(std::vector<double> times) {
  std::nth_element(times.begin(), times.begin() + static_cast<ptrdiff_t>(times.size() / 2), times.end());
  return times[times.size() / 2];
}

// `a` and `b` each work through all masks.
template <typename A, typename B>
void Compare(const char* name_a, const char* name_b, A a, B b) {
  using Clock = std::chrono::steady_clock;
  std::vector<double> times_a, times_b;
  const auto end = Clock::now() + std::chrono::duration<double>(seconds_per_pair);
  do {
    const auto start = Clock::now();
    a();
    const auto middle = Clock::now();
    b();
    times_a.push_back(std::chrono::duration<double>(middle - start).count());
    times_b.push_back(std::chrono::duration<double>(Clock::now() - middle).count());
  } while (Clock::now() < end || times_a.size() < 3);
  const double time_a = Median(times_a) / kMasks * 1e6;
  const double time_b = Median(times_b) / kMasks * 1e6;
  std::printf("%-26s %9.3f us/mask   %-30s %9.3f us/mask   speed ratio %.2f\n", name_a, time_a, name_b, time_b,
              time_b / time_a);
}

int Main(int argc, char** argv) {
  const RleList masks = MakeMasks();
  if (argc > 1 && std::strcmp(argv[1], "--texts") == 0) {
    for (size_t i = 0; i < kMasks; ++i) {
      std::string text;
      AppendCocoText(masks[i].runs, &text);
      std::printf("%u %u %s\n", kHeight, kWidth, text.c_str());
    }
    return 0;
  }
  if (argc > 1) seconds_per_pair = std::atof(argv[1]);
  std::vector<std::string> texts(kMasks);
  size_t characters = 0;
  uint64_t area = 0;
  for (size_t i = 0; i < kMasks; ++i) {
    AppendCocoText(masks[i].runs, &texts[i]);
    characters += texts[i].size();
    area += Area(masks[i]);
  }
  std::vector<uint8_t> dense(size_t{kHeight} * kWidth);
  std::vector<uint8_t> other(dense.size());
  std::vector<uint8_t> packed(kHeight * PackedRowBytes(kWidth));
  std::vector<uint32_t> runs;
  std::vector<uint32_t> simple_runs;
  std::string text;
  std::string value;
  RleList parsed;
  std::printf("%zu masks of %u x %u, %.0f runs each, %.2f characters per run, %.1f %% foreground\n", kMasks, kHeight,
              kWidth, static_cast<double>(masks.runs.size()) / kMasks,
              static_cast<double>(characters) / static_cast<double>(masks.runs.size()),
              100.0 * static_cast<double>(area) / static_cast<double>(kMasks * dense.size()));

  const auto clear = [](std::vector<uint8_t>& bytes, size_t i) {
    std::memset(bytes.data(), static_cast<int>(i & 1), bytes.size());
    asm volatile("" ::"r"(bytes.data()) : "memory");
  };
  {
    // Writes each mask to different memory that is not in the cache, as a loader does.
    std::vector<std::vector<uint8_t>> outputs(24, dense);
    Compare(
        "runs -> dense, cold", "memset of the same bytes",
        [&] {
          for (size_t i = 0; i < kMasks; ++i) Require(DecodeDense(masks[i], outputs[i % 24]).ok(), "dense");
        },
        [&] {
          for (size_t i = 0; i < kMasks; ++i) clear(outputs[i % 24], i);
        });
  }
  const auto decode_dense = [&] {
    for (size_t i = 0; i < kMasks; ++i) Require(DecodeDense(masks[i], dense).ok(), "dense");
  };
  Compare("runs -> dense", "memset of the same bytes", decode_dense, [&] {
    for (size_t i = 0; i < kMasks; ++i) clear(dense, i);
  });
  Compare("runs -> dense", "column-major, memset per run", decode_dense, [&] {
    for (size_t i = 0; i < kMasks; ++i) ColumnMajor(masks[i], other.data());
  });
  Compare(
      "runs -> bit-packed", "runs -> dense",
      [&] {
        for (size_t i = 0; i < kMasks; ++i) Require(DecodePacked(masks[i], packed).ok(), "packed");
      },
      decode_dense);
  for (uint32_t x = 0; x < kWidth; ++x) {
    for (uint32_t y = 0; y < kHeight; ++y) {
      const uint8_t pixel = other[size_t{x} * kHeight + y];
      Require(dense[size_t{y} * kWidth + x] == pixel, "dense pixel");
      Require((packed[y * PackedRowBytes(kWidth) + x / 8] >> (x % 8) & 1) == pixel, "packed pixel");
    }
  }
  Compare(
      "dense -> runs", "runs -> dense",
      [&] {
        for (size_t i = 0; i < kMasks; ++i) {
          Require(EncodeDense(dense, kHeight, kWidth)->runs.size() == masks[kMasks - 1].runs.size(), "runs");
        }
      },
      decode_dense);
  Compare(
      "COCO text -> runs", "a character at a time",
      [&] {
        for (const std::string& t : texts) {
          runs.clear();
          Require(RunsFromCocoText(t, &runs).ok(), "text");
        }
      },
      [&] {
        for (const std::string& t : texts) {
          simple_runs.clear();
          SimpleRunsFromText(t, &simple_runs);
        }
      });
  Require(runs == simple_runs, "runs of a text");
  Compare(
      "runs -> COCO text", "COCO text -> runs",
      [&] {
        for (size_t i = 0; i < kMasks; ++i) {
          text.clear();
          AppendCocoText(masks[i].runs, &text);
        }
      },
      [&] {
        for (const std::string& t : texts) {
          runs.clear();
          Require(RunsFromCocoText(t, &runs).ok(), "text");
        }
      });
  Require(text == texts.back(), "text of runs");
  Compare(
      "runs -> value", "value -> runs",
      [&] {
        value.clear();
        Require(AppendRleValue(masks, &value).ok(), "value");
      },
      [&] { Require(ParseRleValue(value, &parsed).ok(), "parsed value"); });
  Require(parsed == masks, "masks of a value");
  return 0;
}

}  // namespace
}  // namespace shardkit

int main(int argc, char** argv) { return shardkit::Main(argc, argv); }
