#pragma once

// Families of metrics from plain members: the one place that knows prometheus-cpp's types. Each family is made once, with
// all of its label values.

#include <prometheus/metric_family.h>

#include <string>
#include <utility>
#include <vector>

#include "base/metrics.h"

namespace millrace::server {

using Labels = std::vector<std::pair<std::string, std::string>>;

/// One family, filled metric by metric: Family::counter(...).with({{"cause", "slots"}}, 3).with(...).
class Family {
 public:
  static Family counter(std::string name, std::string help) { return {std::move(name), std::move(help), prometheus::MetricType::Counter}; }
  static Family gauge(std::string name, std::string help) { return {std::move(name), std::move(help), prometheus::MetricType::Gauge}; }
  static Family histogram(std::string name, std::string help) { return {std::move(name), std::move(help), prometheus::MetricType::Histogram}; }

  Family& with(const Labels& labels, double value);

  /// `unit`: what the recorded number 1 is worth, 1e-6 for microseconds shown as seconds.
  Family& with(const Labels& labels, const Histogram& histogram, double unit);

  prometheus::MetricFamily done() && { return std::move(family_); }

 private:
  Family(std::string name, std::string help, prometheus::MetricType type);
  prometheus::ClientMetric& add(const Labels& labels);
  prometheus::MetricFamily family_;
};

}  // namespace millrace::server
