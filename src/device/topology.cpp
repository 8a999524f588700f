#include "device/topology.h"

#include <hwloc.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <sstream>

namespace millrace::device {
namespace {

std::string first_line(const std::string& path) {
  std::ifstream in(path);
  std::string line;
  std::getline(in, line);
  return line;
}

/// The cgroup v2 folder of this process; empty when there is none. Groups above it are not asked for their quota.
std::string cgroup_folder() {
  std::ifstream in("/proc/self/cgroup");
  for (std::string line; std::getline(in, line);)
    if (line.rfind("0::", 0) == 0) return "/sys/fs/cgroup" + line.substr(3);
  return "";
}

double read_cpu_quota() {
  std::istringstream words(first_line(cgroup_folder() + "/cpu.max"));  // "max 100000" or "150000 100000"
  double quota = 0, period = 0;
  return words >> quota >> period && period > 0 ? quota / period : 0;
}

std::int64_t cache_bytes(hwloc_topology_t t, hwloc_obj_type_t type, std::int64_t fallback) {
  const hwloc_obj_t cache = hwloc_get_obj_by_type(t, type, 0);
  return cache && cache->attr->cache.size ? static_cast<std::int64_t>(cache->attr->cache.size) : fallback;
}

Topology read_topology() {
  Topology out;
  hwloc_topology_t t;
  if (hwloc_topology_init(&t) != 0) return out;
  if (hwloc_topology_load(t) == 0) {
    hwloc_bitmap_t allowed = hwloc_bitmap_alloc();
    if (hwloc_get_cpubind(t, allowed, HWLOC_CPUBIND_PROCESS) != 0 || hwloc_bitmap_iszero(allowed))
      hwloc_bitmap_copy(allowed, hwloc_topology_get_allowed_cpuset(t));
    out.threads = std::max(1, hwloc_bitmap_weight(allowed));
    for (int i = 0, n = hwloc_get_nbobjs_by_type(t, HWLOC_OBJ_CORE); i < n; ++i) {
      const hwloc_obj_t core = hwloc_get_obj_by_type(t, HWLOC_OBJ_CORE, static_cast<unsigned>(i));
      if (!hwloc_bitmap_intersects(core->cpuset, allowed)) continue;
      hwloc_bitmap_t mine = hwloc_bitmap_dup(core->cpuset);
      hwloc_bitmap_and(mine, mine, allowed);
      out.core_cpus.push_back(hwloc_bitmap_first(mine));
      hwloc_bitmap_free(mine);
    }
    hwloc_bitmap_free(allowed);
    out.cores = std::max<int>(1, static_cast<int>(out.core_cpus.size()));
    out.numa_nodes = std::max(1, hwloc_get_nbobjs_by_type(t, HWLOC_OBJ_NUMANODE));
    out.l1d_bytes = cache_bytes(t, HWLOC_OBJ_L1CACHE, out.l1d_bytes);
    out.l2_bytes = cache_bytes(t, HWLOC_OBJ_L2CACHE, out.l2_bytes);
    out.l3_bytes = cache_bytes(t, HWLOC_OBJ_L3CACHE, out.l3_bytes);
  }
  hwloc_topology_destroy(t);

  std::ifstream cpuinfo("/proc/cpuinfo");
  for (std::string line; std::getline(cpuinfo, line);)
    if (line.rfind("model name", 0) == 0 && line.find(": ") != std::string::npos) {
      out.cpu_model = line.substr(line.find(": ") + 2);
      break;
    }
  out.cpu_quota = read_cpu_quota();
  return out;
}

}  // namespace

const Topology& topology() {
  static const Topology read = read_topology();
  return read;
}

int default_threads() {
  const Topology& t = topology();
  if (t.cpu_quota <= 0) return t.cores;
  return std::clamp(static_cast<int>(std::floor(t.cpu_quota)), 1, t.cores);
}

}  // namespace millrace::device
