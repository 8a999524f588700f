#include "model/testing/reference_forward.h"

#include <algorithm>
#include <cmath>

#include "model/rope.h"

namespace millrace::model::testing {
namespace {

using Row = std::vector<double>;
using Weights = std::map<std::string, const io::testing::TensorSpec*>;

Row linear(const Row& x, const io::testing::TensorSpec& w, const io::testing::TensorSpec* bias) {
  const auto n = static_cast<std::size_t>(w.shape[0]), k = static_cast<std::size_t>(w.shape[1]);
  Row y(n);
  for (std::size_t i = 0; i < n; ++i) {
    for (std::size_t j = 0; j < k; ++j) y[i] += static_cast<double>(w.values[i * k + j]) * x[j];
    if (bias) y[i] += bias->values[i];
  }
  return y;
}

Row rms_norm(const Row& x, const io::testing::TensorSpec& gain, double eps) {
  double sum = 0;
  for (const double v : x) sum += v * v;
  Row y(x.size());
  for (std::size_t i = 0; i < x.size(); ++i) y[i] = x[i] / std::sqrt(sum / static_cast<double>(x.size()) + eps) * gain.values[i];
  return y;
}

void rope(Row& x, int heads, int head_dim, const RopeFrequencies& f, int position) {
  const std::size_t half = f.inverse.size();
  for (int h = 0; h < heads; ++h)
    for (std::size_t i = 0; i < half; ++i) {
      double &a = x[static_cast<std::size_t>(h * head_dim) + i], &b = x[static_cast<std::size_t>(h * head_dim) + half + i];
      const double c = std::cos(position * f.inverse[i]) * f.attention_factor, s = std::sin(position * f.inverse[i]) * f.attention_factor, old = a;
      a = a * c - b * s;
      b = b * c + old * s;
    }
}

/// Softmax attention of query row `t` over keys 0..t.
Row attend(const std::vector<Row>& q, const std::vector<Row>& k, const std::vector<Row>& v, std::size_t t, const ModelConfig& c) {
  const auto d = static_cast<std::size_t>(c.head_dim);
  Row out(static_cast<std::size_t>(c.q_dim()));
  for (std::size_t h = 0; h < static_cast<std::size_t>(c.n_heads); ++h) {
    const std::size_t kv = h / static_cast<std::size_t>(c.n_heads / c.n_kv_heads);
    Row score(t + 1);
    for (std::size_t j = 0; j <= t; ++j) {
      for (std::size_t i = 0; i < d; ++i) score[j] += q[t][h * d + i] * k[j][kv * d + i];
      score[j] /= std::sqrt(static_cast<double>(d));
    }
    const double most = *std::ranges::max_element(score);
    double sum = 0;
    for (double& s : score) sum += s = std::exp(s - most);
    for (std::size_t j = 0; j <= t; ++j)
      for (std::size_t i = 0; i < d; ++i) out[h * d + i] += score[j] / sum * v[j][kv * d + i];
  }
  return out;
}

}  // namespace

std::vector<double> reference_logits(const ModelConfig& c, const std::vector<io::testing::TensorSpec>& specs, const std::vector<TokenId>& tokens) {
  Weights w;
  for (const auto& s : specs) w[s.name] = &s;
  const auto find = [&](const std::string& name) -> const io::testing::TensorSpec* {
    const auto at = w.find(name);
    return at == w.end() ? nullptr : at->second;
  };
  const RopeFrequencies frequencies = rope_frequencies(c.rope, {});
  std::vector<Row> x;
  for (const TokenId t : tokens) {
    const float* row = find("model.embed_tokens.weight")->values.data() + static_cast<std::ptrdiff_t>(t) * c.dim;
    x.emplace_back(row, row + c.dim);
  }
  for (int layer = 0; layer < c.n_layers; ++layer) {
    const std::string p = "model.layers." + std::to_string(layer) + ".";
    std::vector<Row> q, k, v;
    for (std::size_t t = 0; t < x.size(); ++t) {
      const Row h = rms_norm(x[t], *find(p + "input_layernorm.weight"), c.norm_eps);
      const auto project = [&](const char* name) { return linear(h, *find(p + "self_attn." + name + ".weight"), find(p + "self_attn." + name + ".bias")); };
      q.push_back(project("q_proj")), k.push_back(project("k_proj")), v.push_back(project("v_proj"));
      rope(q.back(), c.n_heads, c.head_dim, frequencies, static_cast<int>(t));
      rope(k.back(), c.n_kv_heads, c.head_dim, frequencies, static_cast<int>(t));
    }
    for (std::size_t t = 0; t < x.size(); ++t) {
      const Row a = linear(attend(q, k, v, t, c), *find(p + "self_attn.o_proj.weight"), nullptr);
      for (std::size_t i = 0; i < a.size(); ++i) x[t][i] += a[i];
      const Row h = rms_norm(x[t], *find(p + "post_attention_layernorm.weight"), c.norm_eps);
      const Row gate = linear(h, *find(p + "mlp.gate_proj.weight"), nullptr), up = linear(h, *find(p + "mlp.up_proj.weight"), nullptr);
      Row f(gate.size());
      for (std::size_t i = 0; i < f.size(); ++i) f[i] = gate[i] / (1 + std::exp(-gate[i])) * up[i];
      const Row down = linear(f, *find(p + "mlp.down_proj.weight"), nullptr);
      for (std::size_t i = 0; i < down.size(); ++i) x[t][i] += down[i];
    }
  }
  const auto* head = find("lm_head.weight");
  std::vector<double> out;
  for (const Row& row : x) {
    const Row y = linear(rms_norm(row, *find("model.norm.weight"), c.norm_eps), head ? *head : *find("model.embed_tokens.weight"), nullptr);
    out.insert(out.end(), y.begin(), y.end());
  }
  return out;
}

}  // namespace millrace::model::testing
