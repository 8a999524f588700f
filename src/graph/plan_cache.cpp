#include "graph/plan_cache.h"

namespace millrace::graph {

Result<const Plan*> PlanCache::find(int tokens, int outputs, int logits) {
  const Bucket bucket = bucket_for(tokens, outputs, logits, most_);
  if (const auto found = plans_.find(bucket); found != plans_.end()) {
    ++hits_;
    return static_cast<const Plan*>(found->second.get());
  }
  ++misses_;
  auto made = Plan::make(graph_, bucket, context_);
  if (!made) return std::move(made).error();
  return static_cast<const Plan*>(plans_.emplace(bucket, *std::move(made)).first->second.get());
}

}  // namespace millrace::graph
