#include "server/metric_families.h"

#include "base/utf8.h"

namespace millrace::server {

Family::Family(std::string name, std::string help, prometheus::MetricType type) {
  family_.name = std::move(name);
  family_.help = std::move(help);
  family_.type = type;
}

prometheus::ClientMetric& Family::add(const Labels& labels) {
  prometheus::ClientMetric& metric = family_.metric.emplace_back();
  for (const auto& [name, value] : labels) metric.label.push_back({name, is_valid_utf8(value) ? value : repair_utf8(value)});
  return metric;
}

Family& Family::with(const Labels& labels, double value) {
  prometheus::ClientMetric& metric = add(labels);
  if (family_.type == prometheus::MetricType::Counter) metric.counter.value = value;
  else metric.gauge.value = value;
  return *this;
}

Family& Family::with(const Labels& labels, const Histogram& histogram, double unit) {
  auto& out = add(labels).histogram;
  // The count is the sum of the buckets as they were read, so that the page agrees with itself whatever is recorded meanwhile.
  const auto bounds = histogram.bounds();
  for (std::size_t i = 0; i < bounds.size(); ++i) {
    out.sample_count += histogram.bucket(i);
    out.bucket.push_back({out.sample_count, static_cast<double>(bounds[i]) * unit});
  }
  out.sample_count += histogram.bucket(bounds.size());
  out.sample_sum = static_cast<double>(histogram.sum()) * unit;
  return *this;
}

}  // namespace millrace::server
