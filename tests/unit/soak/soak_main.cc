// Runs rounds of random datasets for a given time. tests/soak starts it and documents it.
#include <chrono>
#include <cinttypes>
#include <cstdio>
#include <cstdlib>
#include <string>

#include "unit/soak/soak.h"

namespace {

using Clock = std::chrono::steady_clock;

int Usage() {
  std::fprintf(stderr, "usage: soak --seconds N [--seed S] [--rounds R] [--every N] [--report FILE]\n");
  return 2;
}

bool Report(const std::string& path, const std::string& text) {
  std::printf("%s\n", text.c_str());
  std::fflush(stdout);
  if (path.empty()) return true;
  std::FILE* const file = std::fopen(path.c_str(), "a");
  if (file == nullptr) return false;
  std::fprintf(file, "%s\n", text.c_str());
  return std::fclose(file) == 0;
}

}  // namespace

int main(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  double seconds = -1;
  uint64_t seed = 1, rounds = UINT64_MAX;
  double every = 60;
  std::string report;
  for (int i = 1; i < argc; i += 2) {
    const std::string option = argv[i];
    if (i + 1 == argc) return Usage();
    char* end = nullptr;
    if (option == "--report") {
      report = argv[i + 1];
      continue;
    }
    const double number = std::strtod(argv[i + 1], &end);
    if (*end != '\0' || end == argv[i + 1] || number < 0) return Usage();
    if (option == "--seconds") {
      seconds = number;
    } else if (option == "--seed") {
      seed = std::strtoull(argv[i + 1], nullptr, 10);
    } else if (option == "--rounds") {
      rounds = static_cast<uint64_t>(number);
    } else if (option == "--every") {
      every = number;
    } else {
      return Usage();
    }
  }
  if (seconds < 0) return Usage();
  const auto begin = Clock::now();
  const auto elapsed = [&] { return std::chrono::duration<double>(Clock::now() - begin).count(); };
  double next_report = every;
  shardkit::test::SoakCounts counts;
  for (uint64_t round = 0; round < rounds && (round == 0 || elapsed() < seconds); ++round, ++seed) {
    std::string contradiction = shardkit::test::SoakRound(seed, &counts).Run();
    // The helper functions of the tests report their errors through GoogleTest.
    if (contradiction.empty() && testing::UnitTest::GetInstance()->Failed()) contradiction = "see above";
    if (!contradiction.empty()) {
      Report(report, counts.Text());
      Report(report, "CONTRADICTION with --seed " + std::to_string(seed) + ": " + contradiction);
      return 1;
    }
    if (elapsed() >= next_report) {
      next_report += every;
      if (!Report(report, std::to_string(static_cast<uint64_t>(elapsed())) + " s: " + counts.Text())) return 3;
    }
  }
  return Report(report, counts.Text() + "; no contradiction; next seed " + std::to_string(seed)) ? 0 : 3;
}
