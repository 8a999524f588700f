#include "cli/inspect_machine.h"

#include <nlohmann/json.hpp>

#include "device/memory_info.h"
#include "device/topology.h"

namespace millrace::cli {

nlohmann::ordered_json machine_report() {
  const device::Topology& machine = device::topology();
  const device::MemoryInfo memory = device::machine_memory();
  nlohmann::ordered_json isas = nlohmann::ordered_json::array();
  for (const kernels::Isa isa : kernels::runnable_isas()) isas.push_back(kernels::to_string(isa));
  return {{"cpu", machine.cpu_model}, {"cores", machine.cores}, {"hardware_threads", machine.threads}, {"cpu_quota", machine.cpu_quota},
          {"numa_nodes", machine.numa_nodes}, {"l1d_bytes", machine.l1d_bytes}, {"l2_bytes", machine.l2_bytes}, {"l3_bytes", machine.l3_bytes},
          {"memory_bytes", memory.total_bytes}, {"free_bytes", memory.free_bytes}, {"threads", device::default_threads()}, {"isa", isas}};
}

nlohmann::ordered_json kernels_report(kernels::Isa isa) {
  nlohmann::ordered_json report = nlohmann::ordered_json::object();
  for (const kernels::KernelRow& row : kernels::kernel_rows(isa)) report[std::string(row.kernel)] = kernels::to_string(row.from);
  return report;
}

}  // namespace millrace::cli
