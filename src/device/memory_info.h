#pragma once

// How much memory this process may use: what the machine has, within the limit of every cgroup above the process (v2 and
// v1). Read from /proc and /sys each time; plain data.

#include <cstdint>
#include <string>

namespace millrace::device {

struct MemoryInfo {
  std::int64_t free_bytes = 0;   // what can still be taken; pages of files that the system can drop count as free
  std::int64_t total_bytes = 0;  // the smallest of physical memory and the cgroups' limits
  bool cgroup_limit = false;     // total_bytes is a cgroup's
};

/// `root` stands before every path, so that a test can bring its own /proc and /sys. What cannot be read limits nothing.
MemoryInfo machine_memory(const std::string& root = "");

/// Bytes of this process that are in memory now.
std::int64_t resident_bytes();

}  // namespace millrace::device
