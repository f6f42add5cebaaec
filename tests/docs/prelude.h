// What the examples of README.md and docs/ leave to their reader. It stands before each of them when they are compiled,
// and brings no header of Shardkit along: an example includes what it uses.
#pragma once
#include <cstddef>

inline size_t trained_values = 0;

template <typename... Values>
void Train(const Values&...) {
  trained_values += sizeof...(Values);
}

template <typename... Values>
void Save(const Values&...) {}
