#include "server/process_metrics.h"

#include <dirent.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cstdint>
#include <ctime>
#include <fstream>
#include <optional>
#include <sstream>
#include <string>

#include "server/metric_families.h"

namespace millrace::server {
namespace {

std::string read_text(const char* path) {
  std::ifstream in(path);
  std::ostringstream out;
  out << in.rdbuf();
  return std::move(out).str();
}

/// Fields of /proc/self/stat behind the name, which may hold anything: field 3 of proc(5) is [0].
std::vector<double> stat_fields() {
  const std::string text = read_text("/proc/self/stat");
  const auto name_end = text.rfind(')');
  std::vector<double> fields;
  if (name_end == text.npos) return fields;
  std::istringstream in(text.substr(name_end + 1));
  for (std::string word; in >> word;) fields.push_back(std::atof(word.c_str()));
  return fields;
}

std::optional<double> boot_time_s() {
  const std::string text = read_text("/proc/stat");
  const auto at = text.find("\nbtime ");
  if (at == text.npos) return std::nullopt;
  return std::atof(text.c_str() + at + 7);
}

std::optional<double> open_descriptors() {
  DIR* folder = ::opendir("/proc/self/fd");
  if (folder == nullptr) return std::nullopt;
  int count = 0;
  while (::readdir(folder) != nullptr) ++count;
  ::closedir(folder);
  return count - 3;  // ".", ".." and the folder's own
}

}  // namespace

std::vector<prometheus::MetricFamily> process_metrics() {
  std::vector<prometheus::MetricFamily> out;
  const auto gauge = [&](const char* name, const char* help, double value) { out.push_back(std::move(Family::gauge(name, help).with({}, value)).done()); };

  timespec cpu{};
  if (::clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &cpu) == 0)
    out.push_back(std::move(Family::counter("process_cpu_seconds_total", "CPU time of all threads, user and system.")
                                .with({}, static_cast<double>(cpu.tv_sec) + static_cast<double>(cpu.tv_nsec) * 1e-9))
                      .done());
  if (const auto open = open_descriptors()) gauge("process_open_fds", "Open file descriptors.", *open);
  if (rlimit limit{}; ::getrlimit(RLIMIT_NOFILE, &limit) == 0) gauge("process_max_fds", "Most file descriptors that may be open.", static_cast<double>(limit.rlim_cur));
  if (const auto stat = stat_fields(); stat.size() > 21) {
    gauge("process_virtual_memory_bytes", "Address space.", stat[20]);
    gauge("process_resident_memory_bytes", "Memory in RAM.", stat[21] * static_cast<double>(::sysconf(_SC_PAGESIZE)));
    static const std::optional<double> boot = boot_time_s();  // a large file; it does not change
    if (boot) gauge("process_start_time_seconds", "When the process began, since the epoch.", *boot + stat[19] / static_cast<double>(::sysconf(_SC_CLK_TCK)));
  }
  return out;
}

}  // namespace millrace::server
