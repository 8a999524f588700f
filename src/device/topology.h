#pragma once

// What this machine has: cores that this process may use, caches. Read once through hwloc and /proc; plain data.

#include <cstdint>
#include <string>
#include <vector>

namespace millrace::device {

struct Topology {
  std::string cpu_model;
  int cores = 1;    // physical cores that this process may run on
  int threads = 1;  // hardware threads likewise
  std::vector<int> core_cpus;  // one hardware thread of each core, by its number
  std::int64_t l1d_bytes = 32 << 10, l2_bytes = 512 << 10, l3_bytes = 8 << 20;  // of one cache; l2 and l3 as seen by one core
  int numa_nodes = 1;
  double cpu_quota = 0;  // cores' worth of time that the cgroup grants; 0 = no limit
};

const Topology& topology();

/// Workers used when nobody says otherwise: one per core, no more than the cgroup's quota.
int default_threads();

}  // namespace millrace::device
