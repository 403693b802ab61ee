// SPDX-License-Identifier: BSD-3-Clause
//
// Reads gradients and streams off the real blocks into a report, as squared norms and means of one seed, and averages
// the seeds.
#pragma once

#include <algorithm>
#include <cstddef>
#include <type_traits>
#include <vector>

#include <normplace/analysis/report.hpp>
#include <normplace/detail/workspace.hpp>
#include <normplace/measure/seeds.hpp>
#include <normplace/nn/parameters.hpp>

namespace normplace::detail {

template <class Tensor>
double squared_norm(const Tensor& tensor) {
    double sum = 0.0;
    for (const auto entry : tensor.storage()) sum += static_cast<double>(entry) * static_cast<double>(entry);
    return sum;
}
template <class T>
double second_moment(const Activations<T>& x) {
    return squared_norm(x) / static_cast<double>(x.size());
}

/// Second moment and token correlation of x (B, S, D). The sum over pairs of different tokens is |sum of x_i|^2 - sum
/// of |x_i|^2, so it costs no more than the norms.
template <class T, class Stream>
void read_stream(const Activations<T>& x, Stream& moments) {
    const std::size_t batch = x.shape()[0], n = x.shape()[1], d = x.shape()[2];
    Scratch<double> scratch(d);
    double* sum = scratch.data();
    double squares = 0.0, pairs = 0.0;
    for (std::size_t b = 0; b < batch; ++b) {
        std::fill_n(sum, d, 0.0);
        double own = 0.0;
        for (std::size_t i = 0; i < n; ++i) {
            const T* row = x.data() + (b * n + i) * d;
            for (std::size_t j = 0; j < d; ++j) {
                const double entry = static_cast<double>(row[j]);
                sum[j] += entry;
                own += entry * entry;
            }
        }
        squares += own;
        for (std::size_t j = 0; j < d; ++j) pairs += sum[j] * sum[j];
        pairs -= own;
    }
    moments.second_moment.value = squares / static_cast<double>(x.size());
    if (n > 1) moments.token_correlation.value = pairs / (static_cast<double>(n - 1) * squares);
}

template <class Gradients>
void read_linear(const Gradients& gradients, GradientNorm& weight, GradientNorm& bias) {
    weight.norm = squared_norm(gradients.weight);
    bias.norm = squared_norm(gradients.bias);
}
template <class Gradients>
void read_norm(const Gradients& gradients, NormGradients& report) {
    report.gain.norm = squared_norm(gradients.gain);
    report.bias.norm = squared_norm(gradients.bias);
}
/// The block's norms and gates, and behind them those inside the sublayer, in the report's order.
template <class BlockGradients>
void read_block(const BlockGradients& gradients, SublayerReport& block) {
    std::size_t norm = 0, gate = 0;
    for (const auto& of_norm : gradients.norms) read_norm(of_norm, block.norms[norm++]);
    for (const auto& of_gate : gradients.gates) block.gates[gate++].gradient.norm = squared_norm(of_gate);
    const auto inside = [&](const char* name, const auto& of_norm) {
        if (norm < block.norms.size() && block.norms[norm].name == name) read_norm(of_norm, block.norms[norm++]);
    };
    const auto& sublayer = gradients.sublayer;
    if constexpr (requires { sublayer.hidden_norm; }) {
        inside("hidden_norm", sublayer.hidden_norm);
    } else {
        inside("query_norm", sublayer.norms.query_norm);
        inside("key_norm", sublayer.norms.key_norm);
        inside("value_norm", sublayer.norms.value_norm);
        inside("heads_norm", sublayer.norms.heads_norm);
        const auto factors = [&](const char* name, const auto& of_gate) {
            if (gate < block.gates.size() && block.gates[gate].name == name)
                block.gates[gate++].gradient.norm = squared_norm(of_gate);
        };
        factors("query_key_scale", sublayer.norms.query_key_scale);
        factors("head_scale", sublayer.norms.head_scale);
    }
}
/// The sublayer's gradients go into `report`, its norms' into `block`. Without W_o there is nothing to say of it.
template <class BlockGradients, class Report>
void read_attention(const BlockGradients& gradients, Report& report, SublayerReport& block) {
    read_linear(gradients.sublayer.query, report.wq, report.bq);
    read_linear(gradients.sublayer.key, report.wk, report.bk);
    read_linear(gradients.sublayer.value, report.wv, report.bv);
    if (gradients.sublayer.out.weight.size()) read_linear(gradients.sublayer.out, report.wo, report.bo);
    read_block(gradients, block);
}
template <class BlockGradients>
void read_feed_forward(const BlockGradients& gradients, LayerReport& report) {
    read_linear(gradients.sublayer.linear1, report.w1, report.b1);
    read_linear(gradients.sublayer.linear2, report.w2, report.b2);
    read_block(gradients, report.feed_forward);
}

/// Means over seeds and their standard errors; of squared gradient norms the root of the mean.
template <class Report>
void average_seeds(const std::vector<Report>& seeds, Report& summary) {
    std::vector<std::vector<double>> values;  // one row for each entry
    for (const Report& seed : seeds) {
        std::size_t i = 0;
        for_each_entry(seed, [&](const std::string&, const auto& entry) {
            if (i == values.size()) values.emplace_back();
            values[i++].push_back(value_of(entry));
        });
    }
    std::size_t i = 0;
    for_each_entry(summary, [&](const std::string&, auto& entry) {
        constexpr bool squares = std::is_same_v<decltype(entry), GradientNorm&>;
        const Moment average = squares ? root_mean_square_over_seeds(values[i]) : mean_over_seeds(values[i]);
        value_of(entry) = average.value;
        entry.standard_error = average.standard_error;
        ++i;
    });
    summary.seeds = seeds.size();
}

}  // namespace normplace::detail
