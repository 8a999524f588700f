#include "device/memory_info.h"

#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <string_view>

namespace millrace::device {
namespace {

/// File names of one cgroup version, below its mount point.
struct Version {
  const char *mount, *limit, *used, *inactive, *active;
};
constexpr Version kV2{"/sys/fs/cgroup", "memory.max", "memory.current", "inactive_file", "active_file"};
constexpr Version kV1{"/sys/fs/cgroup/memory", "memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file", "total_active_file"};

/// The number a file holds; -1 when there is none ("max", no file).
std::int64_t read_number(const std::string& path) {
  std::ifstream in(path);
  std::int64_t n = -1;
  return in >> n ? n : -1;
}

/// Bytes of the group that are pages of files: charged to it, and given back when somebody needs room.
std::int64_t read_droppable(const std::string& folder, const Version& v) {
  std::ifstream in(folder + "/memory.stat");
  std::string key;
  std::int64_t sum = 0;
  for (std::int64_t n = 0; in >> key >> n;)
    if (key == v.inactive || key == v.active) sum += n;
  return sum;
}

/// Narrows `info` by the group at `path` and all groups above it. A path that is not below the mount (a container that
/// sees its own group as the root) costs nothing: the groups that are there count.
void apply_limits(MemoryInfo& info, const std::string& root, const Version& v, std::string path) {
  if (path.find("/..") != path.npos) path.clear();
  for (;;) {
    while (!path.empty() && path.back() == '/') path.pop_back();
    const std::string folder = root + v.mount + path + "/";
    const std::int64_t limit = read_number(folder + v.limit), used = read_number(folder + v.used);
    if (limit >= 0) {
      if (limit < info.total_bytes) info.total_bytes = limit, info.cgroup_limit = true;
      const std::int64_t held = std::max<std::int64_t>(used - read_droppable(folder, v), 0);
      info.free_bytes = std::clamp<std::int64_t>(limit - held, 0, info.free_bytes);
    }
    if (path.empty()) return;
    path.erase(path.rfind('/'));
  }
}

/// "memory" in "cpu,memory".
bool has_memory(std::string_view controllers) {
  for (;;) {
    const auto comma = controllers.find(',');
    if (controllers.substr(0, comma) == "memory") return true;
    if (comma == controllers.npos) return false;
    controllers.remove_prefix(comma + 1);
  }
}

}  // namespace

MemoryInfo machine_memory(const std::string& root) {
  MemoryInfo out;
  std::ifstream meminfo(root + "/proc/meminfo");
  std::string key, rest;
  for (std::int64_t kib = 0; meminfo >> key >> kib; std::getline(meminfo, rest)) {
    if (key == "MemTotal:") out.total_bytes = kib << 10;
    if (key == "MemAvailable:") out.free_bytes = kib << 10;
  }
  std::ifstream groups(root + "/proc/self/cgroup");
  for (std::string line; std::getline(groups, line);) {  // "0::/user.slice" or "4:cpu,memory:/docker/1f"
    const auto first = line.find(':'), second = line.find(':', first + 1);
    if (first == line.npos || second == line.npos) continue;
    const std::string_view controllers = std::string_view(line).substr(first + 1, second - first - 1);
    if (controllers.empty()) apply_limits(out, root, kV2, line.substr(second + 1));
    if (has_memory(controllers)) apply_limits(out, root, kV1, line.substr(second + 1));
  }
  return out;
}

std::int64_t resident_bytes() {
  std::ifstream statm("/proc/self/statm");
  std::int64_t all_pages = 0, resident_pages = 0;
  statm >> all_pages >> resident_pages;
  return resident_pages * ::sysconf(_SC_PAGESIZE);
}

}  // namespace millrace::device
