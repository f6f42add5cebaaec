// How many threads are worth starting.
#pragma once

namespace shardkit {

// The default number of threads that compute, at least 1: the processors that this process may use, divided among the
// ranks of its machine. They are limited by its affinity (taskset, Slurm) and the cpu.max of its cgroups (containers);
// parts of a processor count as one. LOCAL_WORLD_SIZE, which torchrun sets, says how many ranks there are. Asks the
// system at each call. Thread-safe.
int AvailableProcessors();

}  // namespace shardkit
