// A training loop: batches from a dataset of photographs, regular checkpoints, and resuming from a checkpoint.
//
//   train DATASET CHECKPOINT [EPOCHS [STOP_AFTER_STEPS [WHERE [BALANCE]]]]
//
// WHERE is a condition on the samples, such as "width > 64" or "" for all, BALANCE a column whose values come equally
// often.
//
// RANK and WORLD_SIZE in the environment make it one of several ranks. Each rank has its own checkpoint. The "model" is
// one number: the mean brightness of all images so far. An interrupted run that resumes from its checkpoint prints the
// same lines as a run without interruption.
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <numeric>
#include <string>

#include "shardkit/filesystem.h"
#include "shardkit/loader.h"

namespace {

constexpr uint64_t kStepsBetweenCheckpoints = 10;

struct Model {
  double brightness = 0;

  double Train(const shardkit::Batch& batch) {
    // u8, [samples, height, width, 3]
    const std::span<const uint8_t> pixels = batch.Find("image")->values;
    if (pixels.empty()) return 0;  // this rank has no sample in the last, smaller step, or all were skipped
    const double sum = static_cast<double>(std::accumulate(pixels.begin(), pixels.end(), uint64_t{0}));
    const double loss = sum / static_cast<double>(pixels.size()) - brightness;
    brightness += 0.1 * loss;
    return loss;
  }
};

int Fail(const std::string& what) {
  std::fprintf(stderr, "train: %s\n", what.c_str());
  return 1;
}

// The model and the position in the data belong together, so one file holds both and is replaced atomically.
bool Save(const std::string& path, const Model& model, const shardkit::Cursor& cursor) {
  {
    std::ofstream file(path + ".new");
    file << std::hexfloat << model.brightness << '\n' << shardkit::FormatCursor(cursor) << '\n';
    if (!file.flush()) return false;
  }
  std::error_code error;
  std::filesystem::rename(path + ".new", path, error);
  return !error;
}

uint64_t FromEnvironment(const char* name, uint64_t otherwise) {
  const char* const value = std::getenv(name);
  return value != nullptr ? std::strtoull(value, nullptr, 10) : otherwise;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 3 || argc > 7) {
    return Fail("usage: train DATASET CHECKPOINT [EPOCHS [STOP_AFTER_STEPS [WHERE [BALANCE]]]]");
  }
  const std::string checkpoint = argv[2];
  const uint64_t stop_after = argc > 4 ? std::strtoull(argv[4], nullptr, 10) : UINT64_MAX;

  shardkit::LoaderOptions options;
  options.plan = {.seed = 1, .batch_size = 8, .remainder = shardkit::Remainder::kDrop};
  options.epochs = argc > 3 ? std::strtoull(argv[3], nullptr, 10) : 1;
  options.world_size = FromEnvironment("WORLD_SIZE", 1);
  if (options.world_size > 1 && std::getenv("RANK") == nullptr) return Fail("WORLD_SIZE needs RANK");
  options.rank = FromEnvironment("RANK", 0);
  options.columns = {{.name = "image", .decode = shardkit::ColumnDecode::kImage}};
  options.geometry = {
      .kind = shardkit::GeometryOptions::Kind::kRandomResizedCrop, .width = 64, .flip_probability = 0.5};
  shardkit::LoaderDataset dataset{.path = argv[1]};
  if (argc > 5) dataset.selection.where = argv[5];
  if (argc > 6) dataset.balance = argv[6];
  options.bad_samples = shardkit::BadSamples::kSkip;

  Model model;
  if (std::ifstream file(checkpoint); file) {
    std::string brightness, cursor;
    if (!std::getline(file, brightness) || !std::getline(file, cursor)) return Fail(checkpoint + ": is cut short");
    model.brightness = std::strtod(brightness.c_str(), nullptr);
    const auto parsed = shardkit::ParseCursor(cursor);
    if (!parsed.ok()) return Fail(checkpoint + ": " + std::string(parsed.status().message()));
    options.cursor = *parsed;
  }

  const auto loader = shardkit::Loader::Open(*shardkit::PosixFileSystem(), {dataset}, options);
  if (!loader.ok()) return Fail(std::string(loader.status().message()));

  for (uint64_t steps = 0; steps < stop_after; ++steps) {
    const uint64_t steps_left = (*loader)->steps_left();
    const auto batch = (*loader)->Next();
    if (!batch.ok()) return Fail(std::string(batch.status().message()));  // the last checkpoint remains valid
    if (*batch == nullptr) break;
    for (const shardkit::BadSample& bad : (*batch)->skipped()) {
      std::fprintf(stderr, "train: skipped sample %llu: %s\n", static_cast<unsigned long long>(bad.sample.ordinal),
                   std::string(bad.status.message()).c_str());
    }
    const double loss = model.Train(**batch);
    std::printf("epoch %llu, %llu steps to go: %zu samples, loss %.6f\n",
                static_cast<unsigned long long>((*batch)->epoch()), static_cast<unsigned long long>(steps_left),
                (*batch)->size(), loss);
    if ((steps + 1) % kStepsBetweenCheckpoints != 0) continue;
    if (!Save(checkpoint, model, (*loader)->cursor())) return Fail(checkpoint + ": cannot be written");
  }
  if (!Save(checkpoint, model, (*loader)->cursor())) return Fail(checkpoint + ": cannot be written");

  const shardkit::Diagnosis diagnosis = Diagnose((*loader)->Report());
  std::fprintf(stderr, "train: bounded by %s: %s; %s\n", diagnosis.stage.c_str(), diagnosis.reason.c_str(),
               diagnosis.advice.c_str());
  return 0;
}
