#pragma once

// What the operating system says of this process, under the names every Prometheus client library uses.

#include <prometheus/metric_family.h>

#include <vector>

namespace millrace::server {

/// process_resident_memory_bytes, process_virtual_memory_bytes, process_cpu_seconds_total, process_open_fds,
/// process_max_fds, process_start_time_seconds; what cannot be read is left out.
std::vector<prometheus::MetricFamily> process_metrics();

}  // namespace millrace::server
