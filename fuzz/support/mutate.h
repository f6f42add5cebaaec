// Mutation that knows the structure of the bytes. Only in libFuzzer's builds.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "support/file_sections.h"

// libFuzzer's own mutation, in place; returns the new size.
extern "C" size_t LLVMFuzzerMutate(uint8_t* data, size_t size, size_t max_size);

namespace shardkit::fuzz {

// Applies libFuzzer's mutation to a string. The string grows to at most `max_size`.
inline void Mutate(std::string* bytes, size_t max_size) {
  const size_t size = bytes->size();
  bytes->resize(std::max(max_size, size));
  bytes->resize(LLVMFuzzerMutate(reinterpret_cast<uint8_t*>(bytes->data()), size, bytes->size()));
}

// Copies back as many bytes as fit.
inline size_t PutBack(std::string_view bytes, uint8_t* data, size_t max_size) {
  const size_t size = std::min(bytes.size(), max_size);
  std::copy_n(bytes.data(), size, reinterpret_cast<char*>(data));
  return size;
}

// Mutates one file of an input of sections, then usually calls `repair` with all sections. Sometimes mutates the raw
// input instead.
inline size_t MutateSections(uint8_t* data, size_t size, size_t max_size, unsigned seed, size_t name_count,
                             const std::function<void(std::vector<std::pair<size_t, std::string>>&)>& repair) {
  std::vector<std::pair<size_t, std::string>> sections;
  for (const FileSection& section : SplitSections({reinterpret_cast<const char*>(data), size}, name_count)) {
    sections.emplace_back(section.name, section.content);
  }
  if (sections.empty() || seed % 16 == 0) return LLVMFuzzerMutate(data, size, max_size);
  std::string& chosen = sections[seed / 16 % sections.size()].second;
  const size_t room = max_size > size ? max_size - size : 0;
  Mutate(&chosen, chosen.size() + room);
  if (seed % 16 != 1) repair(sections);
  return PutBack(JoinSections(sections), data, max_size);
}

}  // namespace shardkit::fuzz
