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
#include <normplace/measure/read_gradients.hpp>
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
    average_seeds(seeds, report);
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
