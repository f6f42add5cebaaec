// Guarded memory, a grid run on the host, and a device made of both.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <memory>
#include <random>
#include <span>
#include <vector>

#include "gpu/backend.h"
#include "gpu/kernels/kernels.h"
#include "gpu/kernels/normalize_body.h"
#include "gpu/kernels/rasterize_body.h"
#include "gpu/kernels/resample_body.h"

namespace shardkit::gpu::test {

class Random {
 public:
  explicit Random(uint64_t seed) : engine_(seed) {}
  uint32_t Between(uint32_t low, uint32_t high) { return low + static_cast<uint32_t>(engine_() % (high - low + 1)); }
  double Real(double low, double high) { return std::uniform_real_distribution<>(low, high)(engine_); }
  bool Coin() { return engine_() % 2 == 0; }
  std::vector<uint8_t> Bytes(size_t count) {
    std::vector<uint8_t> bytes(count);
    for (uint8_t& byte : bytes) byte = static_cast<uint8_t>(engine_());
    return bytes;
  }
  std::mt19937_64& engine() { return engine_; }

 private:
  std::mt19937_64 engine_;
};

// Bytes that begin `misalignment` after a multiple of 256. Writes outside of them are noticed.
class Guarded {
 public:
  explicit Guarded(uint64_t bytes, uint32_t misalignment = 0)
      : bytes_(bytes),
        begin_(kCanary + misalignment),
        memory_(new (std::align_val_t{256}) uint8_t[begin_ + bytes + kCanary]) {
    std::memset(memory_.get(), kValue, begin_ + bytes + kCanary);
  }
  Guarded(std::span<const uint8_t> content, uint32_t misalignment = 0) : Guarded(content.size(), misalignment) {
    if (!content.empty()) std::memcpy(data(), content.data(), content.size());
  }
  uint8_t* data() { return memory_.get() + begin_; }
  std::span<const uint8_t> content() const { return {memory_.get() + begin_, bytes_}; }
  bool Untouched() const {
    const auto is_value = [](uint8_t byte) { return byte == kValue; };
    return std::all_of(memory_.get(), memory_.get() + begin_, is_value) &&
           std::all_of(memory_.get() + begin_ + bytes_, memory_.get() + begin_ + bytes_ + kCanary, is_value);
  }

 private:
  struct Delete {
    void operator()(uint8_t* memory) const { operator delete[](memory, std::align_val_t{256}); }
  };
  static constexpr size_t kCanary = 256;
  static constexpr uint8_t kValue = 0xc5;
  uint64_t bytes_;
  size_t begin_;
  std::unique_ptr<uint8_t[], Delete> memory_;
};

// Runs the threads of a block one after the other. When their order is reversed, results that depend on the order
// within a phase change.
struct HostThreads {
  bool backward = false;

  template <typename Phase>
  void operator()(const Phase& phase) const {
    for (uint32_t i = 0; i < kBlockThreads; ++i) phase(backward ? kBlockThreads - 1 - i : i);
  }
};

// The size of the grid: as on a device, or with a limit on the blocks in each dimension.
struct Emulation {
  uint32_t most_blocks = UINT32_MAX;
  bool backward = false;
};

// Calls block(place, shared) for each block, with garbage in the shared memory of its threads.
template <typename Shared, typename Block>
void RunGrid(GridSize grid, const Emulation& emulation, const Block& block) {
  grid = {std::min(grid.x, emulation.most_blocks), std::min(grid.y, emulation.most_blocks),
          std::min(grid.z, emulation.most_blocks)};
  const auto shared = std::make_unique<Shared>();
  const uint64_t blocks = uint64_t{grid.x} * grid.y * grid.z;
  for (uint64_t i = 0; i < blocks; ++i) {
    const uint64_t at = emulation.backward ? blocks - 1 - i : i;
    std::memset(static_cast<void*>(shared.get()), 0xa5, sizeof(Shared));
    block(BlockPlace{{static_cast<uint32_t>(at % grid.x), static_cast<uint32_t>(at / grid.x % grid.y),
                      static_cast<uint32_t>(at / grid.x / grid.y)},
                     grid},
          *shared);
  }
}

template <int kChannels>
void EmulateNormalize(const NormalizeImages& arguments, const Emulation& emulation) {
  codec::WithPixelType(arguments.output.type, [&](auto pixel) {
    RunGrid<NormalizeShared<kChannels>>(
        NormalizeGrid(arguments), emulation, [&](const BlockPlace& place, auto& shared) {
          NormalizeBlock<decltype(pixel), kChannels>(arguments, place, shared, HostThreads{emulation.backward});
        });
  });
}

inline void Emulate(const NormalizeImages& arguments, const Emulation& emulation) {
  arguments.channels == 1 ? EmulateNormalize<1>(arguments, emulation) : EmulateNormalize<3>(arguments, emulation);
}

template <int kChannels>
void EmulateResample(const ResampleImages& arguments, const Emulation& emulation) {
  const HostThreads threads{emulation.backward};
  RunGrid<char>(HorizontalGrid(arguments), emulation,
                [&](const BlockPlace& place, char&) { HorizontalBlock<kChannels>(arguments, place, threads); });
  codec::WithPixelType(arguments.output.type, [&](auto pixel) {
    RunGrid<VerticalShared<kChannels>>(VerticalGrid(arguments), emulation, [&](const BlockPlace& place, auto& shared) {
      VerticalBlock<decltype(pixel), kChannels>(arguments, place, shared, threads);
    });
  });
}

inline void Emulate(const ResampleImages& arguments, const Emulation& emulation) {
  arguments.channels == 1 ? EmulateResample<1>(arguments, emulation) : EmulateResample<3>(arguments, emulation);
}

inline void Emulate(const RasterizeMasks& arguments, const Emulation& emulation) {
  const HostThreads threads{emulation.backward};
  RunGrid<SumRunsShared>(SumRunsGrid(arguments), emulation, [&](const BlockPlace& place, SumRunsShared& shared) {
    SumRunsBlock(arguments, place, shared, threads);
  });
  RunGrid<RasterizeShared>(RasterizeGrid(arguments), emulation, [&](const BlockPlace& place, RasterizeShared& shared) {
    arguments.packed ? RasterizeBlock<true>(arguments, place, shared, threads)
                     : RasterizeBlock<false>(arguments, place, shared, threads);
  });
}

// Runs kernels immediately: the twins (kernels_host.cc), or the bodies over their grids. It has no other function of a
// device.
class KernelBackend : public Backend {
 public:
  KernelBackend() = default;
  explicit KernelBackend(const Emulation& emulation) : twin_(false), emulation_(emulation) {}

  absl::Status Launch(const NormalizeImages& arguments, Stream) override {
    twin_ ? NormalizeOnHost(arguments) : Emulate(arguments, emulation_);
    return absl::OkStatus();
  }
  absl::Status Launch(const ResampleImages& arguments, Stream) override {
    twin_ ? ResampleOnHost(arguments) : Emulate(arguments, emulation_);
    return absl::OkStatus();
  }
  absl::Status Launch(const RasterizeMasks& arguments, Stream) override {
    twin_ ? RasterizeOnHost(arguments) : Emulate(arguments, emulation_);
    return absl::OkStatus();
  }

  const DeviceInfo& info() const override { return info_; }
  absl::StatusOr<void*> AllocateDevice(uint64_t) override { return Missing(); }
  void FreeDevice(void*, uint64_t) override {}
  absl::StatusOr<void*> AllocatePinned(uint64_t) override { return Missing(); }
  void FreePinned(void*, uint64_t) override {}
  absl::StatusOr<Stream> CreateStream() override { return Missing(); }
  void DestroyStream(Stream) override {}
  absl::Status SynchronizeStream(Stream) override { return Missing(); }
  absl::StatusOr<Event> CreateEvent(bool) override { return Missing(); }
  void DestroyEvent(Event) override {}
  absl::Status Record(Event, Stream) override { return Missing(); }
  absl::Status Wait(Stream, Event) override { return Missing(); }
  absl::StatusOr<bool> Query(Event) override { return Missing(); }
  absl::Status Synchronize(Event) override { return Missing(); }
  absl::StatusOr<double> ElapsedSeconds(Event, Event) override { return Missing(); }
  absl::Status Copy(void*, const void*, uint64_t, CopyKind, Stream) override { return Missing(); }
  absl::Status Fill(void*, uint8_t, uint64_t, Stream) override { return Missing(); }
  absl::Status Spin(uint64_t, Stream) override { return Missing(); }
  void PushRange(const char*) override {}
  void PopRange() override {}

 private:
  static absl::Status Missing() { return absl::UnimplementedError("kernels only"); }

  const bool twin_ = true;
  const Emulation emulation_{};
  const DeviceInfo info_{};
};

}  // namespace shardkit::gpu::test
