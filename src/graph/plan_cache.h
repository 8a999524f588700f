#pragma once

// Plans by step size, each made once. Decode steps of one batch size never plan again, whatever their contexts.

#include <map>
#include <memory>

#include "graph/plan.h"

namespace millrace::graph {

class PlanCache {
 public:
  /// `graph` and what `context` points to outlive the cache.
  PlanCache(const Graph& graph, PlanContext context, Bucket most) : graph_(graph), context_(context), most_(most) {}

  /// The plan of the smallest bucket that holds the step. Errors: those of Plan::make.
  Result<const Plan*> find(int tokens, int outputs, int logits);

  std::int64_t hits() const { return hits_; }
  std::int64_t misses() const { return misses_; }

 private:
  const Graph& graph_;
  PlanContext context_;
  Bucket most_;
  std::map<Bucket, std::unique_ptr<Plan>> plans_;
  std::int64_t hits_ = 0, misses_ = 0;
};

}  // namespace millrace::graph
