#pragma once

// Who asks: a name, a share and limits that belong to an API key. Without keys everybody is the one tenant "default".

#include <cstdint>
#include <string>

namespace millrace::server {

struct Tenant {
  std::string name = "default";
  int id = 0;      // engine::Request::tenant
  int weight = 1;  // engine::Request::tenant_weight, 1 to 1000
  std::int64_t requests_per_minute = 0, tokens_per_minute = 0;  // 0: no limit
};

}  // namespace millrace::server
