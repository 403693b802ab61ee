// SPDX-License-Identifier: BSD-3-Clause
//
// The measured report: what `predict` says, read off the real blocks over many seeds.
//
//     GradientReport measured = measure<PostLN, float>(model, {.seeds = 32});
//     measured.layers.back().w2.norm             // sqrt(mean over seeds of ||dLoss/dW_2||_F^2)
//     measured.layers.back().w2.standard_error
#pragma once

#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string_view>
#include <vector>

#include <normplace/detail/parallel.hpp>
#include <normplace/measure/reference_network.hpp>

namespace normplace {

struct MeasureOptions {
    std::size_t seeds = 8;                   ///< S; the standard error falls as 1/sqrt(S); one seed has none (NaN)
    std::optional<std::string_view> text{};  ///< bytes that the seeds read (token_batch.hpp); without: Gaussian tokens
    std::function<void(std::size_t done, std::size_t total)>
        progress{};           ///< called after each seed, one call at a time
    std::size_t threads = 0;  ///< 0: as many as OpenMP would use
};

namespace detail {

/// Means over seeds and their standard errors. A gradient norm is the root of the mean square, and its standard error
/// that of the mean square over twice the root.
inline void summarize(const std::vector<GradientReport>& seeds, GradientReport& summary) {
    std::vector<double> sum, sum_of_squares;
    const double count = static_cast<double>(seeds.size());
    for (const GradientReport& seed : seeds) {
        std::size_t i = 0;
        for_each_entry(seed, [&](const std::string&, const auto& entry) {
            if (i == sum.size()) sum.push_back(0.0);
            sum[i++] += value_of(entry);
        });
    }
    for (const GradientReport& seed : seeds) {
        std::size_t i = 0;
        for_each_entry(seed, [&](const std::string&, const auto& entry) {
            if (i == sum_of_squares.size()) sum_of_squares.push_back(0.0);
            const double deviation = value_of(entry) - sum[i] / count;
            sum_of_squares[i++] += deviation * deviation;
        });
    }
    std::size_t i = 0;
    for_each_entry(summary, [&](const std::string&, auto& entry) {
        const double mean = sum[i] / count;
        const double error = seeds.size() > 1 ? std::sqrt(sum_of_squares[i] / (count * (count - 1.0))) : not_available;
        ++i;
        if constexpr (std::is_same_v<decltype(entry), GradientNorm&>) {
            entry.norm = std::sqrt(mean);
            entry.standard_error = mean > 0.0 ? error / (2.0 * entry.norm) : error;
        } else {
            entry.value = mean;
            entry.standard_error = error;
        }
    });
    summary.seeds = seeds.size();
}

template <class P, class T, class N>
GradientReport measure(const ReferenceModel& model, const MeasureOptions& options) {
    const bool with_tokens = options.text.has_value();
    GradientReport report = empty_report<P>(model);
    std::vector<GradientReport> seeds(options.seeds, report);
    const std::size_t threads = std::min(options.threads ? options.threads : thread_count(), options.seeds);
    std::vector<std::unique_ptr<ReferenceNetwork<P, T, N>>> networks(threads);
    std::size_t done = 0;
    std::mutex mutex;
    const SingleThreadedBlas single_threaded_blas;  // the seeds are parallel instead
    parallel_for(options.seeds, threads, [&](std::size_t seed, std::size_t worker) {
        auto& network = networks[worker];
        if (!network) network = std::make_unique<ReferenceNetwork<P, T, N>>(model, with_tokens);
        if (with_tokens) {
            const TokenBatch batch = byte_batch(*options.text, model.batch, model.sequence, seed);
            network->measure(seed, &batch, seeds[seed]);
        } else {
            network->measure(seed, nullptr, seeds[seed]);
        }
        if (!options.progress) return;
        const std::lock_guard lock(mutex);
        options.progress(++done, options.seeds);
    });
    summarize(seeds, report);
    return report;
}

}  // namespace detail

/// Measures the gradients of the reference model under placement P, in scalar T, over `options.seeds` seeds. Seed s
/// always draws the same weights and data, whatever the number of seeds and threads.
/// @throws std::invalid_argument when the model does not fit, seeds is 0, or the text is too short (with the length it
///         would need) or its bytes are not all tokens of the vocabulary
template <class P, class T = float>
GradientReport measure(const ReferenceModel& model, const MeasureOptions& options = {}) {
    static_assert(explain_placement<P>());
    model.check();
    detail::require_positive("measure", "seeds", options.seeds);
    if (options.text) {
        detail::require(
            model.vocabulary == 256, "measure",
            "with a text the tokens are bytes, so the vocabulary is 256, not " + std::to_string(model.vocabulary));
        byte_batch(*options.text, model.batch, model.sequence, options.seeds - 1);
    }
    return model.norm == NormKind::layer_norm ? detail::measure<P, T, LayerNorm<T>>(model, options)
                                              : detail::measure<P, T, RMSNorm<T>>(model, options);
}

}  // namespace normplace
